"""`rrise certify --out`: whole datasets from the command line."""

import json
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest

import rrise
from tests.deployment.service.serving import make_image_certifier


@pytest.fixture
def certifier(tmp_path: Path) -> Path:
    make_image_certifier()[0].save(tmp_path / "certifier")
    return tmp_path / "certifier"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).random((30, 1, 8, 8), dtype=np.float32)
    np.save(tmp_path / "inputs.npy", images)
    return tmp_path / "inputs.npy"


def test_certifies_into_a_folder_and_resumes(run, certifier: Path, inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, output, errors = run("certify", certifier, inputs, "--out", out, "--shard", 8)
    expected = rrise.load_certifier(certifier).certify(np.load(inputs))
    issued = int(expected.issued.sum())
    assert code == 0
    assert f"30 inputs: {issued} issued, {30 - issued} abstained; 4 parts in {out}" in output
    assert "P[issued]" in output
    assert "30/30 inputs" in errors
    rows = ds.dataset(sorted(out.glob("*.parquet")), format="parquet").to_table()
    np.testing.assert_array_equal(rows["radius"].to_numpy(), expected.radius)
    code, output, _ = run("certificates", out, "--where", "issued and row >= 10")
    assert code == 0
    assert f"{expected.issued[10:].sum()} of 30 certificates match" in output
    code, output, _ = run("certificates", out, "--out", tmp_path / "rows.csv")
    assert code == 0
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 31
    (out / "part-00002.parquet").unlink()
    code, _, errors = run("certificates", out)
    assert code == 2
    assert "1 of 4 parts are missing" in errors
    code, output, _ = run("certify", certifier, inputs, "--out", out, "--json")
    assert code == 0
    facts = json.loads(output)
    assert (facts["inputs"], facts["parts"], facts["kept"]) == (30, 4, 3)
    assert (facts["issued"], facts["abstained"]) == (issued, 30 - issued)
    assert facts["guarantee"]["id"] == expected.guarantee.id


def test_votes_of_the_base_go_into_the_folder_too(
    run, quick_demo: Path, inputs: Path, tmp_path: Path
) -> None:
    base, out = quick_demo / "base", tmp_path / "out"
    code, _, _ = run(
        "certify", quick_demo / "certifier", inputs, "--votes", 64, "--base", base, "--out", out, "--json"
    )
    assert code == 0
    rows = ds.dataset(sorted(out.glob("*.parquet")), format="parquet").to_table()
    assert set(rows["passes"].to_pylist()) == {65}


def test_wrong_arguments_are_refused_in_a_sentence(
    run, certifier: Path, inputs: Path, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "out")
    for arguments, sentence in (
        ((inputs, "--skip-bad"), "--skip-bad has no effect without --out"),
        ((inputs, "--shard", 5), "--shard has no effect without --out"),
        ((inputs, "--backend", "ray"), "--backend has no effect without --out"),
        ((inputs, "--device", "cuda"), "--device has no effect without --out"),
        ((inputs, *out, "--workers", 2), "--workers needs --backend ray"),
        ((inputs, *out, "--backend", "dask"), "expected a back end out of local, ray; got 'dask'"),
        ((inputs, *out, "--backend", "ray", "--attack-radius", 0.1), "leave out --backend ray, or --attack-"),
        ((inputs, *out, "--backend", "ray", "--device", "cpu"), "remove device"),
        ((inputs, *out, "--device", "nowhere"), "cannot compute on nowhere"),
        ((inputs, *out, "--batch-size", 0), "batch_size"),
        (("memory://a.npy",), "pass --out"),
        (("memory://a.npy", *out), "there is no file or folder memory://a.npy"),
        ((tmp_path, *out), "holds the inputs: choose another folder"),
    ):
        code, output, errors = run("certify", certifier, *arguments)
        assert code == 2, arguments
        assert sentence in " ".join(errors.split())
        assert output == ""
