"""Whole datasets: the same certificates as one call, from files of every kind, through any interruption."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray

import rrise
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import input_digests
from rrise.files import read_signed_json
from rrise.votes.cluster import Cluster
from tests.deployment.service.serving import side_classifier, some_images

from .conftest import FORMS, SOME, png


def certificates_in(out: Path) -> pa.Table:
    parts = sorted(out.glob("part-*.parquet"))
    return pa.dataset.dataset(parts, format="parquet").to_table()


def assert_same(rows: pa.Table, expected: Certificates) -> None:
    assert rows["index"].to_pylist() == list(range(len(expected)))
    for name in ("label", "radius", "lower_bound", "issued", "passes"):
        np.testing.assert_array_equal(rows[name].to_numpy(), getattr(expected, name))
    assert rows["error"].null_count == len(rows)


@pytest.mark.parametrize("form", FORMS)
def test_files_of_every_kind_get_the_certificates_of_one_call(
    form: str, images_certifier: SurrogateCertifier, pixels: NDArray[np.uint8], tmp_path: Path
) -> None:
    inputs = FORMS[form](tmp_path, pixels)
    expected = images_certifier.certify(pixels / np.float32(255))
    assert 0 < expected.issued.sum() < len(expected)
    done = rrise.certify_dataset(images_certifier, inputs, tmp_path / "out", shard=10, batch_size=4)
    rows = certificates_in(tmp_path / "out")
    assert_same(rows, expected)
    assert (done.inputs, done.parts, done.kept, done.errors) == (SOME, 4, 0, 0)
    assert (done.issued, done.abstained) == (expected.issued.sum(), SOME - expected.issued.sum())
    assert done.passes == SOME
    names = np.array(images_certifier.class_names)[expected.label]
    assert rows["class_name"].to_pylist() == names.tolist()
    assert rows["method"].unique().to_pylist() == ["surrogate"]
    tensor = torch.from_numpy(pixels / np.float32(255))
    assert rows["digest"].to_pylist() == [digest.hex() for digest in input_digests(tensor)]
    assert all(Path(file).exists() for file in rows["file"].unique().to_pylist())


def test_rows_name_file_and_place(
    images_certifier: SurrogateCertifier, pixels: NDArray[np.uint8], tmp_path: Path
) -> None:
    rrise.certify_dataset(images_certifier, FORMS["several"](tmp_path, pixels), tmp_path / "out", shard=16)
    rows = certificates_in(tmp_path / "out")
    found = [(Path(row["file"]).name, row["row"]) for row in rows.to_pylist()]
    counts = {"1.npy": 5, "2.npy": 1, "3.png": 1, "4.parquet": 30}
    assert found == [(name, row) for name, count in counts.items() for row in range(count)]


def test_urls_in_and_out(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    np.save(tmp_path / "a.npy", images[:20])
    np.savez(tmp_path / "b.npz", images[20:30])
    pixels = np.round(images[30:] * 255).astype(np.uint8)
    for name in ("a.npy", "b.npz"):
        files.pipe_file(f"/bulk/in/{name}", (tmp_path / name).read_bytes())
    for number, image in enumerate(pixels):
        files.pipe_file(f"/bulk/in/more/{number}.png", png(image))
    expected = images_certifier.certify(images)
    for where, place in (("memory://bulk/in", "folder"), ("memory://bulk/in/*.np?", "pattern")):
        out = f"memory://bulk/{place}"
        done = rrise.certify_dataset(images_certifier, where, out, shard=16)
        tables = [
            pq.read_table(files.open(name)) for name in sorted(files.glob(f"/bulk/{place}/part-*.parquet"))
        ]
        assert_same(pa.concat_tables(tables), expected[: done.inputs])
        assert done.inputs == (37 if place == "folder" else 30)
        assert rrise.certify_dataset(images_certifier, where, out).kept == done.parts
    np.save(tmp_path / "c.npy", images)
    done = rrise.certify_dataset(images_certifier, f"file://{tmp_path}/c.npy", f"file://{tmp_path}/out")
    assert_same(certificates_in(tmp_path / "out"), expected)
    assert done.inputs == SOME


def test_an_exported_certifier_and_the_folder_of_one(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    from tests.deployment.service.serving import drawn_votes

    votes = drawn_votes(side_classifier(6.0), some_images(200), 300)
    rrise.export_certifier(images_certifier, some_images(200), votes, tmp_path / "exported")
    images_certifier.save(tmp_path / "saved")
    np.save(tmp_path / "inputs.npy", images)
    for folder in ("exported", "saved"):
        expected = rrise.load_deployed(tmp_path / folder).certify(images)
        done = rrise.certify_dataset(tmp_path / folder, tmp_path / "inputs.npy", tmp_path / f"{folder}-out")
        assert_same(certificates_in(tmp_path / f"{folder}-out"), expected)
        assert done.guarantee == expected.guarantee
    with pytest.raises(rrise.RriseError, match="another certifier: its guarantee is"):
        rrise.certify_dataset(tmp_path / "exported", tmp_path / "inputs.npy", tmp_path / "saved-out")


def test_the_manifest_holds_the_promise_and_what_it_is_of(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", images)
    done = rrise.certify_dataset(images_certifier, tmp_path / "inputs.npy", tmp_path / "out")
    found = read_signed_json(tmp_path / "out" / "manifest.json")
    assert found["guarantee"] == json.loads(json.dumps(images_certifier.guarantee.to_json()))
    assert found["guarantee"]["id"] == found["certifier"]["guarantee"] == done.guarantee.id
    assert found["inputs"]["count"] == SOME
    assert found["inputs"]["bytes"] == (tmp_path / "inputs.npy").stat().st_size
    assert {"rrise", "torch", "numpy", "pyarrow"} <= set(found["versions"])


class Bounds:
    """A certifier whose numbers need every digit."""

    def __init__(self, certifier: SurrogateCertifier) -> None:
        self._certifier = certifier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._certifier, name)

    def certify(self, inputs: Any) -> Certificates:
        bound = np.nextafter(0.9, 1.0) + 1e-13 * np.arange(len(inputs))
        return Certificates.from_bound(
            np.zeros(len(inputs), dtype=np.int64), bound, guarantee=self.guarantee, passes=1
        )


def test_numbers_are_stored_in_full(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", images)
    certifier = Bounds(images_certifier)
    rrise.certify_dataset(certifier, tmp_path / "inputs.npy", tmp_path / "out")
    assert_same(certificates_in(tmp_path / "out"), certifier.certify(images))


def test_what_is_there_is_kept_and_a_damaged_part_is_computed_again(
    images_certifier: SurrogateCertifier, images: NDArray[np.float32], tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", images)
    call = (images_certifier, tmp_path / "inputs.npy", tmp_path / "out")
    first = rrise.certify_dataset(*call, shard=10)
    parts = sorted((tmp_path / "out").glob("part-*"))
    content = {path.name: path.read_bytes() for path in parts}
    untouched = {path.name: path.stat().st_mtime_ns for path in parts[1:]}
    edited = pq.read_table(parts[0])
    edited = edited.set_column(5, "radius", pa.array(edited["radius"].to_numpy() * 2))
    buffer = pa.BufferOutputStream()
    pq.write_table(edited, buffer)
    flipped = bytearray(content[parts[0].name])
    flipped[100] ^= 1
    for damage, reason in (
        (content[parts[0].name][:-30], "it is damaged"),
        (b"", "it is damaged"),
        (bytes(flipped), "it "),
        (buffer.getvalue().to_pybytes(), "it was edited"),
        (content[parts[1].name], "it belongs to another run or place"),
    ):
        parts[0].write_bytes(damage)
        seen: list[int] = []
        with pytest.warns(RuntimeWarning, match=f"part-00000.parquet is computed again: {reason}"):
            again = rrise.certify_dataset(*call, on_progress=seen.append)
        assert (again.kept, again.issued, again.passes) == (3, first.issued, first.passes)
        assert sum(seen) == SOME
        assert {path.name: path.read_bytes() for path in parts} == content
    assert {path.name: path.stat().st_mtime_ns for path in parts[1:]} == untouched


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


def test_a_certifier_that_votes_and_one_that_refuses_an_input(
    images_certifier: SurrogateCertifier, image_certifier: Any, images: NDArray[np.float32], tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", images)
    base = image_certifier[1]
    cascade = rrise.Cascade(images_certifier, base, radius=0.4)
    done = rrise.certify_dataset(cascade, tmp_path / "inputs.npy", tmp_path / "out", shard=20)
    rows = certificates_in(tmp_path / "out")
    assert set(rows["method"].unique().to_pylist()) == {"surrogate", "monte-carlo"}
    assert done.passes == sum(rows["passes"].to_pylist()) > SOME

    class Refuses(Bounds):
        def certify(self, inputs: Any) -> Certificates:
            if any(bool((one == torch.from_numpy(images[5])).all()) for one in inputs):
                raise rrise.errors.InputError("the base classifier returned NaN")
            return images_certifier.certify(inputs)

    certifier = Refuses(images_certifier)
    with pytest.raises(rrise.RriseError, match=r"inputs\.npy, input 5: the base classifier returned NaN"):
        rrise.certify_dataset(certifier, tmp_path / "inputs.npy", tmp_path / "refused")
    done = rrise.certify_dataset(certifier, tmp_path / "inputs.npy", tmp_path / "refused", skip_bad=True)
    found = certificates_in(tmp_path / "refused").to_pylist()
    assert done.errors == 1
    assert found[5]["error"] == "the base classifier returned NaN"
    expected = images_certifier.certify(images)
    for row in (4, 6, SOME - 1):
        assert found[row]["radius"] == pytest.approx(expected.radius[row], abs=1e-5)


def test_query_noise_is_fresh_for_every_input_and_every_run(tmp_path: Path) -> None:
    base = side_classifier(6.0)
    images = some_images(200)
    from tests.deployment.service.serving import drawn_votes

    certifier = rrise.calibrate(
        side_classifier(20.0),
        images,
        drawn_votes(base, images, 300),
        sigma=0.25,
        failure=0.3,
        base=base,
        query_noise=0.3,
        attack_radius=0.05,
    )
    np.save(tmp_path / "same.npy", np.repeat(images[:1], 60, axis=0))
    bounds = []
    for out in ("one", "two"):
        rrise.certify_dataset(certifier, tmp_path / "same.npy", tmp_path / out, shard=20, batch_size=8)
        bounds += certificates_in(tmp_path / out)["lower_bound"].to_pylist()
    assert len(set(bounds)) > 100
    assert all(a != b for a, b in itertools.pairwise(bounds[:3]))
