"""What a service says when it does not answer."""


class RefusedError(Exception):
    """A request that is not answered: the HTTP status and the sentence that says why."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after
