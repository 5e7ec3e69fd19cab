from pathlib import Path

import pytest
import torch

import rrise
from rrise.errors import FolderError
from rrise.models.catalogue import build_model
from rrise.models.folder import load_base, load_model, save_model
from rrise.models.weights import save_tensors

SHAPES = {
    "resnet-18": (3, 32, 32),
    "mlp-mixer-tiny": (3, 32, 32),
    "efficientnet-b0": (3, 32, 32),
    "vit-tiny": (3, 64, 64),
}


def test_a_saved_model_is_the_same_classifier(tmp_path: Path) -> None:
    module = build_model("small-convnet", seed=3, classes=7)
    save_model(tmp_path, "small-convnet", module, classes=7)
    assert rrise.fingerprint(load_model(tmp_path)) == rrise.fingerprint(module)
    assert rrise.fingerprint(load_base(str(tmp_path))) == rrise.fingerprint(module)
    with pytest.raises(ValueError, match="do not pass others"):
        load_base(str(tmp_path), weights="random")
    with pytest.raises(FolderError, match=r"expected a model folder .*/gone, but there is none"):
        load_base(str(tmp_path / "gone"))


def test_weights_that_are_not_the_saved_ones_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path, "small-convnet", build_model("small-convnet", seed=3))
    save_tensors(tmp_path / "weights.safetensors", build_model("small-convnet", seed=4).state_dict())
    with pytest.raises(ValueError, match="is damaged: its weights are not the saved ones"):
        load_model(tmp_path)


def test_an_architecture_by_name_with_weights_from_a_file(tmp_path: Path) -> None:
    module = build_model("small-convnet", seed=9)
    save_tensors(tmp_path / "w.safetensors", module.state_dict())
    assert rrise.fingerprint(
        load_base("small-convnet", str(tmp_path / "w.safetensors"))
    ) == rrise.fingerprint(module)
    with pytest.raises(ValueError, match="do not fit"):
        load_base("small-convnet", str(tmp_path / "w.safetensors"), {"classes": 5})


@pytest.mark.parametrize("name", SHAPES)
def test_the_papers_architectures(name: str) -> None:
    module = build_model(name, seed=0, classes=13).eval()
    with torch.no_grad():
        assert module(torch.rand(2, *SHAPES[name])).shape == (2, 13)
    assert rrise.fingerprint(module) == rrise.fingerprint(build_model(name, seed=0, classes=13))
    assert rrise.fingerprint(module) != rrise.fingerprint(build_model(name, seed=1, classes=13))


def test_sizes_of_the_papers_architectures() -> None:
    millions = {
        name: sum(weight.numel() for weight in build_model(name, seed=0).parameters()) / 1e6
        for name in SHAPES
    }
    assert millions["resnet-18"] == pytest.approx(11.17, abs=0.01)
    assert millions["mlp-mixer-tiny"] == pytest.approx(2.5, abs=0.1)
    wide = build_model("mlp-mixer-tiny", seed=0, width=256)
    assert sum(weights.numel() for weights in wide.parameters()) / 1e6 == pytest.approx(4.4, abs=0.1)
    assert build_model("resnet-18", seed=0).network.conv1.stride == (1, 1)
    assert len(build_model("vit-tiny", seed=0).network.blocks) == 9


def test_any_of_timms_architectures() -> None:
    module = load_base("timm:resnet10t", "random", {"num_classes": 6}).eval()
    with torch.no_grad():
        assert module(torch.rand(2, 3, 32, 32)).shape == (2, 6)
