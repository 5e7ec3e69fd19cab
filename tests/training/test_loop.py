import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rrise
from rrise.training.base import train_base
from rrise.training.base_objectives import BaseObjective
from rrise.training.checkpoint import Checkpoint
from rrise.training.loop import _rate
from rrise.training.settings import TrainingHistory, TrainingSettings
from tests.forking import FORKS, with_torch
from tests.training.networks import Convolutions, WithDropoutAndNorm, seeded

EPOCHS = 8


class Stop(Exception):  # noqa: N818
    """What an interruption looks like from inside."""


def data() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.rand(300, 4, generator=torch.Generator().manual_seed(0))
    return inputs, (inputs.sum(dim=1) > 2).long()


def run(
    net: nn.Module,
    checkpoint: Checkpoint | None = None,
    stop_after: int | None = None,
    told: list[object] | None = None,
    objective: BaseObjective | None = None,
    **changes: object,
) -> TrainingHistory:
    """Train a network; `told` gets what is told of progress, and "epoch" for each epoch told of."""
    inputs, labels = data()

    def on_epoch(epoch: int, _: dict[str, float]) -> None:
        if told is not None:
            told.append("epoch")
        if epoch == stop_after:
            raise Stop

    settings = TrainingSettings(**{"epochs": EPOCHS, "learning_rate": 0.02, "batch_size": 64, **changes})
    return train_base(
        net,
        inputs[:250],
        labels[:250],
        inputs[250:],
        labels[250:],
        sigma=0.1,
        settings=settings,
        objective=objective,
        checkpoint=checkpoint,
        on_progress=None if told is None else told.append,
        on_epoch=on_epoch,
    )


def place(folder: Path, **identity: object) -> Checkpoint:
    return Checkpoint(folder, identity, seconds=0)


@pytest.mark.parametrize("kind", [WithDropoutAndNorm, Convolutions])
@pytest.mark.parametrize("stops", [[1], [3], [2, 5, 7], [EPOCHS]])
def test_an_interrupted_training_ends_bit_for_bit_where_an_uninterrupted_one_does(
    stops: list[int], kind: type[nn.Module], tmp_path: Path
) -> None:
    whole = seeded(kind)
    expected = run(whole)
    for stop in stops:
        with pytest.raises(Stop):
            run(seeded(kind), place(tmp_path), stop)
        torch.manual_seed(stop)  # whatever the process drew in between
    resumed = seeded(kind, seed=99)
    assert run(resumed, place(tmp_path)) == expected
    assert rrise.fingerprint(resumed) == rrise.fingerprint(whole)


def train_slowly(folder: Path, said: Any) -> None:
    """Train in a process of its own, and say how it ended."""
    net = seeded(WithDropoutAndNorm)
    slow = net.register_forward_hook(lambda *_: time.sleep(0.01))
    history = run(net, place(folder))
    slow.remove()
    said.put(f"{history.selected_epoch} {rrise.fingerprint(net)}")


def test_killed_at_any_moment_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    whole, said = seeded(WithDropoutAndNorm), FORKS.SimpleQueue()
    expected = f"{run(whole).selected_epoch} {rrise.fingerprint(whole)}"
    for kill_after in (2, 4):  # files that the training has written by then
        process = with_torch(train_slowly, tmp_path, said)
        seen: set[int] = set()
        while len(seen) < kill_after and process.is_alive():
            seen |= {file.stat().st_mtime_ns for file in tmp_path.glob("checkpoint.safetensors")}
            time.sleep(0.002)
        process.kill()
        process.join()
        assert len(seen) == kill_after
        assert process.exitcode == -signal.SIGKILL
    finished = with_torch(train_slowly, tmp_path, said)
    finished.join(120)
    assert finished.exitcode == 0
    assert said.get() == expected


def test_the_state_of_another_training_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        run(seeded(WithDropoutAndNorm), place(tmp_path, data="old"), 3)
    fresh, other = seeded(WithDropoutAndNorm), seeded(WithDropoutAndNorm)
    assert run(other, place(tmp_path, data="new")) == run(fresh)
    assert rrise.fingerprint(other) == rrise.fingerprint(fresh)


def test_a_damaged_state_is_named_and_training_starts_over(tmp_path: Path) -> None:
    checkpoint = place(tmp_path)
    with pytest.raises(Stop):
        run(seeded(WithDropoutAndNorm), checkpoint, 3)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match=r"checkpoint\.safetensors cannot be read .*starts over"):
        assert run(seeded(WithDropoutAndNorm), checkpoint) == run(seeded(WithDropoutAndNorm))


def test_short_epochs_do_not_wait_for_the_disk_and_a_finished_training_leaves_nothing(tmp_path: Path) -> None:
    patient = Checkpoint(tmp_path / "base", {})
    run(seeded(WithDropoutAndNorm), patient)
    assert not patient.path.exists()
    eager = place(tmp_path / "base")
    run(seeded(WithDropoutAndNorm), eager)
    assert eager.path.exists()
    eager.clear()
    assert not (tmp_path / "base").exists()


def test_what_the_process_drew_before_or_draws_after_does_not_matter() -> None:
    torch.manual_seed(1)
    first = run(seeded(WithDropoutAndNorm))
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert run(seeded(WithDropoutAndNorm)) == first
    torch.manual_seed(1)
    run(seeded(WithDropoutAndNorm))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loss_that_is_not_finite_stops_with_a_sentence() -> None:
    net = seeded(WithDropoutAndNorm)
    with torch.no_grad():
        net[0].weight.fill_(torch.inf)
    with pytest.raises(ValueError, match="the loss became nan in epoch 1"):
        run(net)


def test_the_rate_warms_up_and_then_follows_a_cosine_to_zero() -> None:
    settings = TrainingSettings(105, 1.0)
    rates = [_rate(epoch, settings) for epoch in range(105)]
    assert rates[:6] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    assert rates[55] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.001
    assert all(later < earlier for earlier, later in pairwise(rates[5:]))


def test_progress_begins_before_the_first_epoch_and_counts_also_after_going_on(tmp_path: Path) -> None:
    first: list[object] = []
    with pytest.raises(Stop):
        run(seeded(WithDropoutAndNorm), place(tmp_path), 3, first)
    assert first == [0, 1, "epoch", 1, "epoch", 1, "epoch"]
    told: list[object] = []
    run(seeded(WithDropoutAndNorm), place(tmp_path), told=told)
    assert [one for one in told if one != "epoch"] == [3, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 0}, "epochs to be at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate to be above 0, got nan"),
        ({"gradient_clip": 0}, "gradient_clip to be above 0, got 0"),
        ({"weight_decay": -1}, "weight_decay to be at least 0, got -1"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(seeded(WithDropoutAndNorm), **changes)


@pytest.mark.parametrize(("most", "threads"), [(10**9, 1), (100, 2)])
def test_small_networks_train_with_one_thread(
    most: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads inside operators wait for each other, which takes very long beside busy processes."""
    monkeypatch.setattr("rrise.training.loop._SMALL", most)
    used: list[int] = []

    class Watched(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            used.append(torch.get_num_threads())
            return super().forward(inputs)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        settings = TrainingSettings(1, 1e-3, 64)
        inputs, labels = data()
        train_base(
            Watched(4, 2), inputs[:64], labels[:64], inputs[64:], labels[64:], sigma=0.1, settings=settings
        )
        assert used[-1] == threads
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
