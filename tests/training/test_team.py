"""Several processes, as torchrun starts them, train one network."""

import os
import socket
from pathlib import Path

import pytest
import torch

from rrise.models.weights import load_tensors, save_tensors
from rrise.training.base import train_base
from rrise.training.checkpoint import Checkpoint
from rrise.training.settings import TrainingSettings
from rrise.training.team import Team, join_team
from tests.forking import with_torch
from tests.training.networks import TwoLayers, seeded
from tests.training.test_loop import data


def member(folder: Path, rank: int, port: int) -> None:
    """Train as one of two, told what torchrun would tell: `tests/runs/test_torchrun.py` calls that itself."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(1)
    team, _ = join_team(torch.device("cpu"))
    assert (team.rank, team.size) == (rank, 2)
    inputs, labels = data()
    net = seeded(TwoLayers, seed=team.rank)  # the leader's weights count
    train_base(
        net,
        inputs[:250],
        labels[:250],
        inputs[250:],
        labels[250:],
        sigma=0.0,
        settings=TrainingSettings(6, 0.02, 64),
        team=team,
        checkpoint=Checkpoint(folder / "state", {}, seconds=0),
    )
    save_tensors(folder / f"{rank}.safetensors", net.state_dict())


def together(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    members = [with_torch(member, folder, rank, port) for rank in (0, 1)]
    for process in members:
        process.join(180)
    assert [process.exitcode for process in members] == [0, 0]


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """Without noise, the gradient of a batch is the average of those of its parts."""
    pytest.importorskip("accelerate")
    together(tmp_path)
    inputs, labels = data()
    alone = seeded(TwoLayers)
    train_base(
        alone,
        inputs[:250],
        labels[:250],
        inputs[250:],
        labels[250:],
        sigma=0.0,
        settings=TrainingSettings(6, 0.02, 64),
    )
    first, second = (load_tensors(tmp_path / f"{rank}.safetensors") for rank in (0, 1))
    for name, weight in alone.state_dict().items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], weight, rtol=1e-4, atol=1e-6)
    assert (tmp_path / "state").is_dir()


def test_one_process_is_a_team_of_its_own() -> None:
    team, device = join_team(torch.device("cpu"))
    assert (team.rank, team.size, team.leads, device.type) == (0, 1, True, "cpu")
    batch = torch.arange(5)
    assert torch.equal(team.part(batch), batch)
    assert team.weight(batch) == 1


def test_parts_cover_a_batch_and_weights_make_its_mean() -> None:
    batch = torch.arange(7)
    members = [Team(), Team()]
    for rank, member in enumerate(members):
        member.rank, member.size = rank, 2
    parts = [member.part(batch) for member in members]
    assert sorted(torch.cat(parts).tolist()) == batch.tolist()
    means = [member.weight(batch) * part.double().mean() for member, part in zip(members, parts, strict=True)]
    assert sum(means) / 2 == pytest.approx(3)
