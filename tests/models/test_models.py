import copy
import functools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rrise.models.catalogue import build_model
from rrise.models.checks import check_is_function
from rrise.models.evaluating import evaluating
from rrise.models.fingerprint import fingerprint
from rrise.models.head import features_before, find_head
from rrise.models.inspection import uncompiled
from rrise.models.logits import logits_of
from rrise.models.weights import load_tensors, load_weights, save_tensors


def test_fingerprint_sees_weights_layers_buffers_and_precision() -> None:
    seen = set()
    for make in (
        lambda: build_model("small-convnet", seed=0),
        lambda: build_model("small-convnet", seed=1),
        lambda: build_model("small-convnet", seed=0).double(),
        lambda: build_model("small-convnet", seed=0, width=8),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1)),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2)),
    ):
        module = make()
        with torch.no_grad():
            if isinstance(module, nn.Sequential):
                module[0].weight.fill_(1)
                module[0].bias.fill_(0)
        seen.add(fingerprint(module))
    assert len(seen) == 6


def test_fingerprint_ignores_mode_and_survives_saving(tmp_path: Path) -> None:
    module = build_model("small-convnet", seed=0)
    before = fingerprint(module)
    assert fingerprint(module.train()) == fingerprint(module.eval()) == before
    save_tensors(tmp_path / "w.safetensors", module.state_dict())
    other = build_model("small-convnet", seed=5)
    load_weights(other, load_tensors(tmp_path / "w.safetensors"), "w")
    assert fingerprint(other) == before


class WithAttribute(nn.Module):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.MultiheadAttention(4, 1), nn.MultiheadAttention(4, 2)),
        (nn.TransformerEncoderLayer(4, 1, 8), nn.TransformerEncoderLayer(4, 1, 8, norm_first=True)),
        (nn.TransformerEncoderLayer(4, 1, 8), nn.TransformerEncoderLayer(4, 1, 8, activation="gelu")),
        (WithAttribute(torch.tensor(0.1)), WithAttribute(torch.tensor(0.2))),
        (WithAttribute(np.float32(0.1)), WithAttribute(np.float32(0.2))),
        (WithAttribute(np.zeros(2)), WithAttribute(np.ones(2))),
        (WithAttribute({1, 2}), WithAttribute({1, 3})),
        (WithAttribute(functools.partial(max, 1)), WithAttribute(functools.partial(max, 2))),
        (WithAttribute(SimpleNamespace(a=1)), WithAttribute(SimpleNamespace(a=2))),
        (WithAttribute({"a": [1.5]}), WithAttribute({"a": [1.6]})),
    ],
)
def test_fingerprint_sees_settings_that_a_layer_does_not_print(one: nn.Module, other: nn.Module) -> None:
    other.load_state_dict(one.state_dict())
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(copy.deepcopy(one)) == fingerprint(one)


def test_a_non_persistent_buffer_counts() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("mean", torch.zeros(1), persistent=False)
    before = fingerprint(module)
    module.mean += 1  # type: ignore[operator]
    assert fingerprint(module) != before


def test_weights_of_another_architecture_or_damaged_are_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / "w.safetensors", nn.Linear(2, 3).state_dict())
    with pytest.raises(ValueError, match="do not fit Linear"):
        load_weights(nn.Linear(3, 3), load_tensors(tmp_path / "w.safetensors"), "w")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:30])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_tensors(tmp_path / "cut.safetensors")
    with pytest.raises(ValueError, match="the file does not exist"):
        load_tensors(tmp_path / "absent.safetensors")


def test_finds_the_head_or_asks_for_its_name() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.Softplus())
    assert find_head(net, 3) is net[1]
    assert find_head(net, 3, "0") is net[0]
    with pytest.raises(ValueError, match="no submodule 'top' to use as its head; it has: 0, 1, 2"):
        find_head(net, 3, "top")
    with pytest.raises(ValueError, match="found no linear layer with 5 outputs"):
        find_head(net, 5)


def test_features_are_what_enters_the_head_and_refused_where_more_follows() -> None:
    inputs = torch.rand(10, 4)
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    features = features_before(plain, plain[2], inputs.split(4))
    assert features is not None
    torch.testing.assert_close(plain[2](features), plain(inputs))
    more = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3), nn.Softplus()).eval()
    assert features_before(more, more[1], inputs.split(4)) is None
    twice = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    twice.append(twice[0])
    assert features_before(twice.eval(), twice[0], inputs.split(4)) is None


def test_evaluating_restores_every_mode() -> None:
    net = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3))
    net[1].eval()
    with evaluating(net):
        assert not any(part.training for part in net.modules())
    assert [part.training for part in net.modules()] == [True, True, False]


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (nn.Linear(5, 2), r"the net does not accept inputs of shape \(2, 3\)"),
        (nn.Flatten(0), r"return logits of shape \(2, classes\), got \(6,\)"),
        (nn.Linear(3, 1), "to have at least 2 classes, got 1"),
        (nn.LSTM(3, 2), "got tuple"),
    ],
)
def test_a_module_that_is_no_classifier_is_refused_in_a_sentence(module: nn.Module, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        logits_of(module, torch.rand(2, 3), "net")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_module_is_the_same_classifier() -> None:
    module = nn.Linear(2, 2)
    compiled = torch.compile(module, backend="eager")
    assert fingerprint(compiled) == fingerprint(module)
    assert uncompiled(compiled) is uncompiled(module) is module


def test_a_constant_logit_does_not_hide_batch_statistics_and_infinity_is_no_alarm() -> None:
    class Padded(nn.Module):
        def __init__(self, extra: float, norm: nn.Module) -> None:
            super().__init__()
            self.extra, self.norm = extra, norm

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.norm(inputs), torch.full((len(inputs), 1), self.extra)], dim=1)

    class Mixing(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs - inputs.mean(0)

    inputs = torch.rand(8, 3, generator=torch.Generator().manual_seed(0))
    for extra in (0.0, -1e4, -1e9, float("-inf")):
        assert check_is_function(Padded(extra, nn.Linear(3, 3)).eval(), inputs, "net") == 4
        with pytest.raises(ValueError, match="differently when other inputs"):
            check_is_function(Padded(extra, Mixing()), inputs, "net")


def test_torchvision_and_timm_import_beside_any_torch() -> None:
    code = (
        "from rrise.torchvision_import import import_torchvision as t; m = t(); assert t() is m; "
        "import timm; from torchvision.transforms import v2; print(m.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_unknown_architecture_is_named() -> None:
    with pytest.raises(ValueError, match=r"an architecture out of small-convnet, .*; got 'vgg'"):
        build_model("vgg", seed=0)


def test_a_built_architecture_has_the_same_fingerprint_where_libraries_describe_it_in_other_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fingerprint(build_model("small-convnet", seed=1, classes=3))
    monkeypatch.setattr(torch.nn.Conv2d, "extra_repr", lambda _: "another version's words")
    again = build_model("small-convnet", seed=1, classes=3)
    assert fingerprint(again) == before
    assert fingerprint(copy.deepcopy(again)) == before
    assert fingerprint(build_model("small-convnet", seed=2, classes=3)) != before
    assert fingerprint(build_model("small-convnet", seed=1, classes=4)) != before


def test_a_built_architecture_that_is_changed_has_another_fingerprint() -> None:
    built = build_model("small-convnet", seed=1)
    before = fingerprint(built)
    layer = next(module for module in built.modules() if isinstance(module, torch.nn.Conv2d))
    layer.padding_mode = "reflect"
    changed = fingerprint(built)
    assert changed != before
    layer.padding_mode = "zeros"
    assert fingerprint(built) == before
    built.temperature = 2.0
    assert fingerprint(built) not in {before, changed}


def test_small_networks_fit_any_small_input() -> None:
    coloured = build_model("small-convnet", seed=0, image_size=(7, 9), channels=3, classes=4)
    assert coloured(torch.rand(2, 3, 7, 9)).shape == (2, 4)
    assert build_model("small-mlp", seed=0, inputs=12, classes=4)(torch.rand(2, 3, 4)).shape == (2, 4)


def test_a_small_resnet_costs_less_than_a_quarter_of_a_pass() -> None:
    def operations(**options: int) -> int:
        network = build_model("resnet-18", seed=0, **options).eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            assert network(torch.rand(2, 3, 32, 32)).shape == (2, 10)
        return counter.get_total_flops()

    assert operations(width=32, last=3) / operations() == pytest.approx(0.22, abs=0.005)
