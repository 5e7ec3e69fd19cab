"""Settings of a monitor: false-alarm rate, audits, and the policy after an alarm."""

from dataclasses import dataclass
from typing import Annotated

from rrise.settings import Setting, check_settings

WARN, ABSTAIN, MONTE_CARLO = POLICIES = ("warn", "abstain", "monte-carlo")
"""Policies after an alarm: certify with a warning, abstain, or certify by Monte Carlo."""


@dataclass(frozen=True)
class MonitorSettings:
    """Settings of a monitor, as `Monitor` takes them."""

    fraction: Annotated[
        float,
        Setting("Share of queries to audit with votes; needs the base.", least=0, most=1, option="--audit"),
    ] = 0.001
    rate: Annotated[
        float,
        Setting("Probability of ever raising a false alarm.", above=0, below=1, option="--false-alarms"),
    ] = 0.01
    policy: Annotated[
        str, Setting("What the service does after an alarm.", names=POLICIES, option="--on-alarm")
    ] = WARN
    keep_inputs: Annotated[bool, Setting("Keep audited inputs in the database.")] = False
    max_waiting: Annotated[int, Setting("Queries that may wait for an audit; more are dropped.", least=1)] = (
        100
    )

    def __post_init__(self) -> None:
        check_settings(self)
