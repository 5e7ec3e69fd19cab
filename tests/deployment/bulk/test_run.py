"""Whole datasets: the same certificates as one call, from files of every kind, through any interruption."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray

import rrise
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import input_digests
from rrise.files import read_signed_json
from tests.deployment.service.serving import side_classifier, some_images

from .conftest import FORMS, SOME, png
from .stored import assert_same, certificates_in


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
    shards = [tuple(bounds[start : start + 20]) for start in range(0, len(bounds), 20)]
    assert len(set(shards)) == 6
    assert all(len(set(shard)) > 10 for shard in shards)  # some bounds are nearly 1 and equal
