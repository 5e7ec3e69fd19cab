"""What `certify_dataset` refuses with a sentence: bad inputs, others than before, wrong arguments."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.votes.cluster import Cluster
from tests.deployment.service.serving import side_classifier, some_images

from .conftest import SOME, png
from .stored import certificates_in


def test_changed_inputs_and_other_certifiers_are_refused(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    inputs, out = tmp_path / "inputs.npy", tmp_path / "out"
    np.save(inputs, images)
    rrise.certify_dataset(images_certifier, inputs, out, shard=10)
    with pytest.raises(rrise.RriseError, match="10 inputs to a part, not 20"):
        rrise.certify_dataset(images_certifier, inputs, out, shard=20)
    np.save(inputs, images[::-1])
    with pytest.raises(rrise.RriseError, match=r"the inputs have changed since .* input 0 is not the one"):
        rrise.certify_dataset(images_certifier, inputs, out)
    np.save(inputs, images[:-1])
    with pytest.raises(rrise.RriseError, match=r"then 37 inputs in 1 files .* now 36 inputs"):
        rrise.certify_dataset(images_certifier, inputs, out)
    np.save(inputs, images)
    shutil.move(inputs, tmp_path / "others.npy")
    with pytest.raises(rrise.RriseError, match="with other names or sizes"):
        rrise.certify_dataset(images_certifier, tmp_path / "others.npy", out)
    other = rrise.calibrate(
        side_classifier(19.0),
        some_images(200),
        np.tile([250, 30, 20], (200, 1)),
        sigma=0.25,
        failure=0.1,
        base=side_classifier(6.0),
        class_names=("left", "middle", "right"),
    )
    with pytest.raises(rrise.RriseError, match="another certifier"):
        rrise.certify_dataset(other, tmp_path / "others.npy", out)
    assert len(certificates_in(out)) == SOME


def bad_files(folder: Path, images: NDArray[np.float32]) -> dict[str, tuple[int, str]]:
    """Files with a bad input, its place, and a part of the sentence about it."""
    pixels = np.round(images * 255).astype(np.uint8)
    folder.mkdir()
    broken = images.copy()
    broken[3, 0, 0, 0] = np.nan
    np.save(folder / "nan.npy", broken)
    broken[3, 0, 0, 0] = 1.5
    np.savez(folder / "range.npz", broken)
    encoded = [png(image) for image in pixels]
    encoded[3] = b"not an image"
    pq.write_table(pa.table({"image": pa.array(encoded, pa.binary())}), folder / "text.parquet")
    encoded[3] = None
    pq.write_table(pa.table({"image": pa.array(encoded, pa.binary())}), folder / "null.parquet")
    inside = folder / "images"
    inside.mkdir()
    for number, image in enumerate(pixels):
        (inside / f"{number:02}.png").write_bytes(png(image if number != 3 else image[:, 1:]))
    return {
        "nan.npy": (3, "NaN or infinity"),
        "range.npz": (3, "to 1.5"),
        "text.parquet": (3, "cannot be read"),
        "null.parquet": (3, "got nothing"),
        "images": (0, "expected an image of 8 x 8 pixels, got 8 x 7"),
    }


def test_a_bad_input_stops_with_its_name_or_gets_a_row(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    expected = images_certifier.certify(np.delete(images, 3, axis=0))
    for name, (row, sentence) in bad_files(tmp_path / "bad", images).items():
        place, out = tmp_path / "bad" / name, tmp_path / f"out-{name}"
        named = f"{'03.png' if name == 'images' else name}, input {row}: .*{sentence}"
        with pytest.raises(rrise.RriseError, match=named):
            rrise.certify_dataset(images_certifier, place, out, shard=10)
        done = rrise.certify_dataset(images_certifier, place, out, skip_bad=True)
        assert (done.inputs, done.errors, done.issued) == (SOME, 1, expected.issued.sum())
        rows = certificates_in(out).to_pylist()
        assert sentence in rows[3]["error"]
        assert {rows[3][one] for one in ("label", "class_name", "radius", "lower_bound", "digest")} == {None}
        assert rows[3]["issued"] is False
        good = rows[:3] + rows[4:]
        assert [one["label"] for one in good] == expected.label.tolist()
        assert [one["radius"] for one in good] == expected.radius.tolist()


@pytest.mark.parametrize("skip_bad", [False, True])
def test_files_that_are_no_inputs_at_all_are_refused(
    skip_bad: bool, images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    (tmp_path / "text.npy").write_text("text")
    np.save(tmp_path / "fortran.npy", np.asfortranarray(images))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    np.save(tmp_path / "whole.npy", images)
    (tmp_path / "short.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-1])
    np.save(tmp_path / "none.npy", images[:0])
    np.savez(tmp_path / "two.npz", a=images, b=images)
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "text.parquet").write_text("text")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"x": [[1.0]], "y": [[1.0]]}), tmp_path / "two.parquet")
    (tmp_path / "empty").mkdir()
    for name, sentence in {
        "text.npy": "expected a .npy file",
        "fortran.npy": "got Fortran order",
        "objects.npy": "an array of numbers",
        "short.npy": "truncated",
        "none.npy": "expected at least one input",
        "two.npz": r"it holds 2 arrays \(a, b\)",
        "text.npz": "expected a .npz archive",
        "text.parquet": "expected a Parquet file",
        "numbers.parquet": "expected one column of lists or of images, got none",
        "two.parquet": "got x, y",
        "empty": "holds no",
        "absent.npy": "there is no file or folder",
        "manifest.json": "there is no file or folder",
    }.items():
        with pytest.raises(rrise.RriseError, match=sentence) as error:
            rrise.certify_dataset(images_certifier, tmp_path / name, tmp_path / "out", skip_bad=skip_bad)
        assert name in str(error.value)
    assert not list((tmp_path / "out").glob("*"))
    done = rrise.certify_dataset(images_certifier, tmp_path / "two.npz", tmp_path / "out", column="b")
    assert done.inputs == SOME
    for name, sentence in (("two.npz", "has no array c"), ("two.parquet", "it has no column c")):
        with pytest.raises(rrise.RriseError, match=sentence):
            rrise.certify_dataset(images_certifier, tmp_path / name, tmp_path / "c", column="c")


def test_wrong_arguments_are_refused(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", images)
    call = (images_certifier, tmp_path / "inputs.npy", tmp_path / "out")
    for setting, sentence in (
        ({"batch_size": 0}, "at least 1"),
        ({"shard": 0}, "at least 1"),
        ({"device": "nowhere"}, "cannot compute on nowhere"),
        ({"cluster": Cluster()}, "pass its folder"),
        ({"cluster": Cluster(), "device": "cuda"}, "remove device"),
    ):
        with pytest.raises(rrise.RriseError, match=sentence):
            rrise.certify_dataset(*call, **setting)
    with pytest.raises(rrise.RriseError, match="which holds the inputs: choose another folder"):
        rrise.certify_dataset(images_certifier, tmp_path, tmp_path / "inside")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file.txt").write_text("mine")
    with pytest.raises(rrise.RriseError, match="holds other files"):
        rrise.certify_dataset(*call[:2], tmp_path / "full")
    with pytest.raises(rrise.RriseError, match="cannot read from nowhere://"):
        rrise.certify_dataset(images_certifier, "nowhere://x.npy", tmp_path / "out")
