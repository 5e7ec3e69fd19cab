"""Fill the tables of docs/at-scale.md from measured rates.

    python benchmarks/bulk.py && python benchmarks/at_scale.py

The rates are those of the committed files in `benchmarks/results`. Prices are assumptions: change them here.
"""

import argparse
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "at-scale.md"
PRICES = {"two CPU cores": 0.10, "one H200": 4.00}
"""Assumed prices of an hour, in dollars."""
VOTES = 10_100
"""Votes of a Monte Carlo certificate: 10,000, and 100 to choose the class."""
DAY = 86_400
_PLACE = re.compile(r"(<!-- measured: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Rate:
    """Certificates per second of a way to certify, on a machine."""

    way: str
    machine: str
    per_second: float
    source: str

    def row(self) -> str:
        """Return the row of a table."""
        seconds = {count: count / self.per_second for count in (10**6, 10**9)}
        price = PRICES[self.machine] / 3600
        cells = [
            self.way,
            self.machine,
            f"{self.per_second:,.0f}" if self.per_second >= 10 else f"{self.per_second:.3g}",
            *map(duration, seconds.values()),
            *(money(price * one) for one in seconds.values()),
            f"{math.ceil(10**9 / DAY / self.per_second):,}",
            f"[{self.source}](../benchmarks/results/{self.source}.md)",
        ]
        return f"| {' | '.join(cells)} |"


def duration(seconds: float) -> str:
    for name, unit, until in (
        ("s", 1, 120),
        ("min", 60, 7200),
        ("h", 3600, 2 * DAY),
        ("days", DAY, 1000 * DAY),
    ):
        if seconds < until:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds / DAY / 365.25:,.0f} years"


def money(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 10 else f"${dollars:,.2f}"


def stored(name: str) -> dict | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def rates() -> list[Rate]:
    """Return every measured rate of ResNet-18 on inputs of 3 x 32 x 32."""
    found = []
    for device, machine in (("cpu", "two CPU cores"), ("cuda", "one H200")):
        for row in (stored(f"bulk-{device}") or {"speeds": []})["speeds"]:
            if row["network"] == "resnet-18":
                way = f"`rrise certify --out`, torch, {row['form']}"
                found.append(Rate(way, machine, row["certified_per_s"], f"bulk-{device}"))
    forms = {form["form"]: form for form in (stored("inference-cpu") or {"forms": []})["forms"]}
    for name in ("onnxruntime-fp32", "onnxruntime-int8"):
        if name in forms:
            rate = 256 / forms[name]["certificate_256_s"]
            found.append(Rate(f"exported, `{name}`, in memory", "two CPU cores", rate, "inference-cpu"))
    passes = (stored("votes-cuda") or {"rows": {}})["rows"].get("resnet-18 tf32")
    if passes:
        way = "forward pass alone, TF32: an upper bound"
        found.append(Rate(way, "one H200", passes["c"], "votes-cuda"))
    carlo = next((form for name, form in forms.items() if name.startswith("Monte Carlo")), None)
    if carlo:
        rate = 1 / carlo["certificate_1_s"]
        found.append(Rate("Monte Carlo, 10,000 votes", "two CPU cores", rate, "inference-cpu"))
    if passes:
        found.append(Rate("Monte Carlo, 10,000 votes, TF32", "one H200", passes["d"] / VOTES, "votes-cuda"))
    return found


def costs() -> str:
    head = (
        "| way | machine | inputs/s | 10^6 inputs | 10^9 inputs | cost of 10^6 | cost of 10^9 | machines for "
        "10^9 queries a day | measured in |"
    )
    return "\n".join([head, "|---|---|---:|---:|---:|---:|---:|---:|---|", *(rate.row() for rate in rates())])


def prices() -> str:
    return "\n".join(f"- {machine}: ${price:.2f} an hour" for machine, price in PRICES.items())


def bulk() -> str:
    """Return the table and the findings of `benchmarks/bulk.py`."""
    pages = [RESULTS / f"bulk-{device}.md" for device in ("cpu", "cuda")]
    texts = [page.read_text().split("\n", 2)[2].strip() for page in pages if page.exists()]
    return "\n\n".join(texts) or "Not measured yet: run `python benchmarks/bulk.py`."


def filled(text: str) -> str:
    makers = {"costs": costs, "prices": prices, "bulk": bulk}
    return _PLACE.sub(lambda place: f"{place[1]}{makers[place['name']]()}\n{place[3]}", text)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
