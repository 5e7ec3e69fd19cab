"""The time of a pass is that of the network, or the report says why there is none."""

import time

import pytest
import torch
from torch import nn

from rrise.evaluation.measure.pass_time import PassTime
from rrise.runs import timing
from rrise.runs.timing import time_passes


class _Works(nn.Linear):
    """Keeps a core busy for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__(2, 2)
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return super().forward(x)


class _Waits(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return super().forward(x)


@pytest.fixture(autouse=True)
def _few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_SECONDS", 0.0)


def test_the_time_of_each_network_is_per_input() -> None:
    found = time_passes({"": _Works(0.008), "less": _Works(0.001)}, torch.zeros(4, 2))
    assert found[""].seconds >= 0.002
    assert 0.00025 <= found["less"].seconds < found[""].seconds
    assert found[""].turns == found["less"].turns == timing._FEWEST_TURNS


def test_turns_go_on_for_a_while_and_restore_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_SECONDS", 0.1)
    before = torch.get_num_threads()
    found = time_passes({"": nn.Linear(2, 2)}, torch.zeros(4, 2))[""]
    assert found.turns is not None
    assert found.turns > timing._FEWEST_TURNS
    assert torch.get_num_threads() == before


def test_a_pass_that_waits_for_a_core_has_no_time() -> None:
    found = time_passes({"": _Waits(2, 2)}, torch.zeros(4, 2))[""]
    assert found.waited is not None
    assert found.waited > 0.5
    assert "busy" in found.problem
    assert found.text == "not steady"


def test_a_wide_spread_is_no_time_and_a_rare_hiccup_changes_nothing() -> None:
    wide = PassTime.of_turns([0.001, 0.001, 0.002, 0.002])
    assert "half of the turns lie outside 1 to 2 ms" in wide.problem
    rare = PassTime.of_turns([0.001] * 9 + [10.0])
    assert (rare.seconds, rare.problem) == (0.001, "")
    assert rare.text == "1 (1 to 1)"


def test_stored_times_are_read_as_they_were_written() -> None:
    new, earlier = PassTime.of_turns([0.001, 0.002, 0.004], waited=0.02), PassTime(0.0125)
    assert PassTime.from_json(new.to_json()) == new
    assert earlier.to_json() == 0.0125
    assert PassTime.from_json(0.0125) == earlier
    assert (earlier.problem, earlier.text) == ("", "12.5")
