"""Refusals of a service."""


class RefusedError(Exception):
    """A refused request: the HTTP status and a sentence with the reason."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after
