"""What a certificate costs in time, as rows of text: its passes times the measured time of one."""

from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.main_comparison import names_of_main
from rrise.evaluation.measure.number_text import DASH
from rrise.evaluation.measure.pass_time import PassTime
from rrise.files import Json


def time_rows(results: Json) -> list[list[str]]:
    """Return method, passes, time of a pass and their product; empty where no time was measured.

    Where the time of a pass was not steady, the row says so and has no product.
    """
    seconds, passes = METRICS["seconds"], METRICS["mean_passes"]
    rows = []
    for name, result in names_of_main(results):
        count, product = (result["metrics"][metric.key] for metric in (passes, seconds))
        found = _time_of(results, result)
        if found is None and product is not None:  # earlier results have the product alone
            found = PassTime(product / count)
        if found is not None:
            text = DASH if product is None else seconds.write(product)
            rows.append([name, passes.write(count), found.text, text])
    return rows


def untimed(results: Json) -> list[str]:
    """Return a sentence for each reason why times are not stated, with the methods that it concerns."""
    methods: dict[str, list[str]] = {}
    for name, result in names_of_main(results):
        found = _time_of(results, result)
        if found is not None and found.problem:
            methods.setdefault(found.problem, []).append(name)
    return [f"No time is stated for {', '.join(names)}: {problem}." for problem, names in methods.items()]


def _time_of(results: Json, result: Json) -> PassTime | None:
    """Return the time of a pass of the method's own network, or else of the base classifier."""
    times = results.get("pass_times", {})
    found = times.get(result["variant"], times.get(""))
    return None if found is None else PassTime.from_json(found)
