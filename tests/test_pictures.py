"""The pictures of the concept pages: what they claim is true, and the script draws them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rrise.statistics import Promise
from tests.test_docs import ROOT, script

pictures = script(ROOT / "docs" / "pictures.py")


@pytest.mark.parametrize("promise", list(Promise))
def test_the_made_up_task_keeps_each_promise(promise: Promise) -> None:
    wrong = pictures.wrong_shares(promise, 40)
    assert wrong.max() > 0.01  # otherwise the picture shows nothing
    if promise is Promise.MARGINAL:
        assert wrong.mean() <= 0.05
    else:
        assert np.mean(wrong > 0.05) <= 0.1  # 0.05 is promised; four of 40 sets are not unlikely


def test_the_circle_is_the_radius_of_the_share() -> None:
    """The toy classifier is nearly a plane there: the share is close to that of the distance to it."""
    noisy, upper = pictures.votes_around((-0.7, 2.0), 0.35, 20_000)
    assert noisy.shape == (20_000, 2)
    assert upper.mean() > 0.999


@pytest.mark.parametrize("name", ["smoothing", "sigmas", "calibration", "attacks"])
def test_a_picture_is_what_its_script_draws(name: str, tmp_path: Path) -> None:
    with (
        Image.open(pictures.draw(name, tmp_path)) as drawn,
        Image.open(pictures.FOLDER / f"{name}.png") as kept,
    ):
        assert drawn.size == kept.size
        difference = np.abs(np.asarray(drawn.convert("L"), float) - np.asarray(kept.convert("L"), float))
        assert difference.mean() < 2


def test_pictures_are_small_and_all_drawn_by_the_script() -> None:
    files = {file.stem: file for file in pictures.FOLDER.glob("*.png")}
    assert set(files) == set(pictures.PICTURES)
    assert max(file.stat().st_size for file in files.values()) < 100_000
