"""What an evaluation found: the content of `results.json`."""

from dataclasses import dataclass

from rrise.errors import InputError
from rrise.files import Json

RESULTS = "results.json"


@dataclass(frozen=True)
class Evaluation:
    """The content of `results.json`: one result for each method, variant, budget and failure."""

    results: Json

    @property
    def main(self) -> list[Json]:
        """The results of the main comparison, in the order of the methods."""
        return [result for result in self.results["results"] if result["main"]]

    def metrics(self, method: str) -> Json:
        """Return the numbers of a method in the main comparison."""
        for result in self.main:
            if result["method"] == method:
                metrics: Json = result["metrics"]
                return metrics
        known = ", ".join(result["method"] for result in self.main)
        raise InputError(f"the main comparison has no {method!r}; it has: {known}")

    @property
    def own(self) -> Json:
        """The numbers of the run's own certifier."""
        return self.metrics(self.results["certifier"][0])
