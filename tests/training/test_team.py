"""Several processes, started by torchrun, train one network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rrise.models.weights import load_tensors
from rrise.training.team import Team, join_team
from tests.training.networks import TwoLayers, seeded
from tests.training.test_loop import data

MEMBER = """
import sys
from pathlib import Path
import torch
from rrise.models.weights import save_tensors
from rrise.training.base import train_base
from rrise.training.checkpoint import Checkpoint
from rrise.training.settings import TrainingSettings
from rrise.training.team import join_team
from tests.training.networks import TwoLayers, seeded
from tests.training.test_loop import data

torch.set_num_threads(1)
folder = Path(sys.argv[1])
team, device = join_team(torch.device("cpu"))
assert team.size == 2
inputs, labels = data()
net = seeded(TwoLayers, seed=team.rank)  # the leader's weights count
history = train_base(
    net, inputs[:250], labels[:250], inputs[250:], labels[250:], sigma=0.0,
    settings=TrainingSettings(6, 0.02, 64), team=team, checkpoint=Checkpoint(folder / "state", {}, seconds=0),
)
save_tensors(folder / f"{team.rank}.safetensors", net.state_dict())
"""


def together(folder: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = folder / "member.py"
    script.write_text(MEMBER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(script), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """Without noise, the gradient of a batch is the average of those of its parts."""
    from rrise.training.base import train_base
    from rrise.training.settings import TrainingSettings

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
