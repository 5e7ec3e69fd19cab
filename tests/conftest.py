"""Fixtures shared by all tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.votes import tuning
from tests.browsing import running_browser
from tests.closed_forms import HalfSpace

hypothesis.settings.register_profile("rrise", deadline=None, derandomize=True)
hypothesis.settings.load_profile("rrise")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests calibrate poor classifiers; documents and docstrings show good ones."""
    for item in items:
        if "tests" in item.path.relative_to(item.config.rootpath).parts:
            item.add_marker(pytest.mark.filterwarnings("ignore::rrise.errors.LittleIssuedWarning"))


@pytest.fixture(autouse=True)
def _same_random_weights_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _batch_sizes_are_tried_out_briefly() -> Iterator[None]:
    """Votes do not depend on the batch size (`test_votes_do_not_depend_on_the_batch_size`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "_TRIAL", 0.02)
        patch.setattr(tuning, "_LONG_TRIAL", 0.2)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="session")
def half_space() -> HalfSpace:
    return HalfSpace(torch.tensor([3.0, -2.0, 1.0, 0.5]), -1.0)


@pytest.fixture(scope="session")
def uniform() -> np.ndarray:
    return np.random.default_rng(0).random((600, 4), dtype=np.float32)


@pytest.fixture(scope="session")
def certifier(half_space: HalfSpace, uniform: np.ndarray) -> SurrogateCertifier:
    """A small certifier for vectors in [0, 1]^4."""
    settings = {"sigma": 0.25, "n": 400, "seed": 1}
    votes = rrise.collect_votes(half_space, uniform[:300], split="train", **settings)
    held_out = rrise.collect_votes(half_space, uniform[300:500], split="calibration", **settings)
    surrogate = rrise.train_surrogate(
        half_space, uniform[:300], votes, epochs=30, learning_rate=0.05, batch_size=64
    )
    return rrise.calibrate(surrogate, uniform[300:500], held_out, sigma=0.25, failure=0.1)


def leave_figures_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save blank figures: drawing takes half of a quick evaluation."""
    from PIL import Image

    from rrise.evaluation.figures.drawing import Drawing

    def blank(_: Drawing, buffer: Any, **settings: Any) -> None:
        if settings["format"] == "svg":
            buffer.write('<svg viewBox="0 0 4 3"></svg>')
        else:
            Image.new("RGB", (4, 3)).save(buffer, "PNG")

    monkeypatch.setattr(Drawing, "_save", blank)


@pytest.fixture(autouse=True)
def blank_figures_of_runs(request: pytest.FixtureRequest) -> None:
    """Save blank figures where runs are tested, but for tests marked `figures`.

    `quick_demo`, which is made before, has its figures.
    """
    part = request.path.relative_to(Path(__file__).parent).parts[0] if "tests" in request.path.parts else ""
    if part in {"runs", "cli"} and request.node.get_closest_marker("figures") is None:
        leave_figures_blank(request.getfixturevalue("monkeypatch"))


@pytest.fixture(scope="session")
def quick_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the demo on a smaller setting."""
    from rich.console import Console

    from rrise.runs.pipeline import run_recipe
    from rrise.runs.recipe import read_recipe

    folder = tmp_path_factory.mktemp("runs") / "demo"
    run_recipe(folder, read_recipe("digits", "quick"), Console(quiet=True))
    return folder


@pytest.fixture(scope="session")
def attacked_run(quick_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose certifier has an attack radius, with the base classifier of `quick_demo`."""
    from tests.runs.test_pipeline import run_quick, with_its_base_alone

    folder = with_its_base_alone(quick_demo, tmp_path_factory.mktemp("attacked") / "run")
    with pytest.MonkeyPatch.context() as patch:
        leave_figures_blank(patch)
        run_quick(
            folder,
            surrogate__strategy="distill",
            surrogate__epochs=4,
            surrogate__query_noise=0.15,
            calibration__failure=0.2,
            calibration__attack_radius=0.05,
        )
    return folder
