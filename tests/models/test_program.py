import copy
import inspect
import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from rrise.errors import FolderError, MismatchError
from rrise.models import program as program_module
from rrise.models.catalogue import build_model
from rrise.models.export import NotAProgramError, write_program
from rrise.models.program import Program


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 7, batch_first=True)
        self.head = nn.Linear(7, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(inputs)[0][:, -1])


class ReshapesAndHides(nn.Module):
    """Batch size in arithmetic, a buffer that state_dict does not hold, infinities, an inner constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((6,), 0.3), persistent=False)
        self.head = nn.Linear(6, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        flat = inputs.reshape(inputs.shape[0] * 2, 3).reshape(inputs.shape[0], -1) - self.mean
        scaled = flat * torch.arange(6, dtype=flat.dtype, device=flat.device)
        return self.head(scaled).masked_fill(torch.tensor([False, True, False, False]), float("-inf"))


class Branches(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs if bool(inputs.sum() > 3) else -inputs


MODULES = {
    "convolutions": (lambda: build_model("small-convnet", seed=0), (1, 8, 8)),
    "batch norm and dropout": (
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)
        ),
        (2, 3),
    ),
    "recurrent": (Recurrent, (4, 5)),
    "attention": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(), nn.Linear(24, 3)
        ),
        (3, 8),
    ),
    "arithmetic": (ReshapesAndHides, (2, 3)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_program_computes_what_the_module_does(name: str) -> None:
    make, shape = MODULES[name]
    module = make().eval()
    program = write_program(module, torch.rand(2, *shape))
    built = program.module()
    rebuilt = Program(json.loads(json.dumps(program.graph)), program.weights).module()
    with torch.inference_mode():
        for batch in (1, 2, 9):
            inputs = torch.rand(batch, *shape)
            assert torch.equal(rebuilt(inputs), built(inputs))
            torch.testing.assert_close(rebuilt(inputs), module(inputs))  # attention has a fast path


@pytest.mark.parametrize(
    "architecture",
    ["resnet18", "efficientnet_b0", pytest.param("vit_tiny_patch16_224", marks=pytest.mark.slow)],
)
def test_timm_models_are_programs(architecture: str) -> None:
    from rrise.torchvision_import import import_torchvision

    import_torchvision()
    import timm

    size = 224 if "224" in architecture else 32
    module = timm.create_model(architecture, num_classes=5).eval()
    program = write_program(module, torch.rand(2, 3, size, size))
    inputs = torch.rand(3, 3, size, size)
    with torch.inference_mode():
        assert torch.equal(program.module()(inputs), module(inputs))


def test_a_module_that_branches_on_its_input_is_no_program() -> None:
    with pytest.raises(NotAProgramError):
        write_program(Branches(), torch.rand(2, 3))


@pytest.mark.parametrize(
    "target",
    [
        "aten.save.default",
        "aten.from_file.default",
        "os.system.x",
        "builtins.eval",
        "operator.attrgetter",
        "aten.x",
    ],
)
def test_a_program_can_call_nothing_but_harmless_operators(target: str) -> None:
    program = write_program(nn.Linear(3, 2).eval(), torch.rand(2, 3))
    evil = copy.deepcopy(program.graph)
    evil["calls"][0]["target"] = target
    with pytest.raises(ValueError, match="damaged or edited"):
        Program(evil, program.weights).module()


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call["kwargs"].update({"bias=[open('/tmp/x', 'w')][0]) #": None}),
        lambda call: call["kwargs"].update({"out": {"node": "weight"}}),
        lambda call: call["args"].append({"node": "nobody"}),
        lambda call: call["args"].append({"torch": "load"}),
        lambda call: call["args"].append({"torch": "os"}),
        lambda call: call["args"].append({"what": 1}),
        lambda call: call["args"].append({}),
        lambda call: call.pop("kwargs"),
        lambda call: call.update(name="input"),
    ],
)
def test_a_program_cannot_smuggle_anything_in(change: Callable[[dict], object]) -> None:
    program = write_program(nn.Linear(3, 2).eval(), torch.rand(2, 3))
    evil = copy.deepcopy(program.graph)
    change(evil["calls"][0])
    with pytest.raises(ValueError, match="damaged or edited"):
        Program(evil, program.weights).module()


def test_no_source_code_is_made_from_a_program() -> None:
    source = inspect.getsource(program_module)
    assert "GraphModule" not in source
    assert "exec(" not in source
    assert "eval(" not in source.replace(".eval()", "")


def test_damaged_programs_are_refused() -> None:
    program = write_program(nn.Linear(3, 2).eval(), torch.rand(2, 3))
    graph = program.graph
    with pytest.raises(ValueError, match="format 1, got 2"):
        Program({**graph, "format": 2}, program.weights).module()
    with pytest.raises(ValueError, match="damaged or edited"):
        Program(graph, {}).module()
    with pytest.raises(ValueError, match="damaged or edited"):
        Program({**graph, "calls": []}, program.weights).module()
    with pytest.raises(ValueError, match="damaged or edited"):
        Program({**graph, "calls": graph["calls"] * 2}, program.weights).module()
    with pytest.raises(ValueError, match="damaged or edited"):
        Program({**graph, "output": "nothing"}, program.weights).module()


def test_narrow_weights_are_computed_with_in_float32() -> None:
    module, inputs = nn.Linear(4, 3).bfloat16().float(), torch.rand(5, 4)
    program = write_program(module, inputs).stored_as(torch.bfloat16)
    assert {weight.dtype for weight in program.weights.values()} == {torch.bfloat16}
    assert torch.equal(program.module()(inputs), module(inputs))


def test_whole_numbers_stay_as_they_are_beside_narrow_weights() -> None:
    module, inputs = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.rand(5, 4)
    module(inputs)
    module = module.bfloat16().float().eval()
    program = write_program(module, inputs).stored_as(torch.bfloat16)
    assert {weight.dtype for weight in program.weights.values()} == {torch.bfloat16, torch.int64}
    assert torch.equal(program.module()(inputs), module(inputs))


def test_weights_that_a_narrower_type_rounds_are_refused() -> None:
    program = write_program(nn.Linear(4, 3), torch.rand(5, 4))
    with pytest.raises(MismatchError, match=r"float32 weights that torch.bfloat16 holds exactly"):
        program.stored_as(torch.bfloat16)


def test_an_unknown_precision_is_refused() -> None:
    program = write_program(nn.Linear(4, 3), torch.rand(5, 4))
    with pytest.raises(FolderError, match="unknown precision 'int4'"):
        Program({**program.graph, "precision": "int4"}, program.weights).module()
