"""Samples for the page."""

import json
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.samples import read_samples
from rrise.errors import InputError

from .serving import JSON, PNG, ask, npy, png, some_images

IMAGES = some_images(2, seed=5)


def test_samples_are_served_by_their_names_only(images_certifier: SurrogateCertifier, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    (folder / "one.png").write_bytes(png(IMAGES[0]))
    (folder / "two.jpg").write_bytes(png(IMAGES[1], "JPEG"))
    (folder / "array.npy").write_bytes(npy(IMAGES[0]))
    (tmp_path / "secret.png").write_bytes(b"secret")
    deployed = images_certifier
    samples = read_samples(folder, deployed.input_shape, deployed.smoothing.input_range)
    with TestClient(create_app(deployed, samples=samples)) as client:
        assert client.get("/v1/certifier").json()["samples"] == ["one.png", "two.jpg"]
        answer = client.get("/v1/samples/one.png")
        assert (answer.content, answer.headers["content-type"]) == (png(IMAGES[0]), PNG)
        for name in ("secret.png", "..%2Fsecret.png", "../secret.png", "array.npy", "%00"):
            assert client.get(f"/v1/samples/{name}").status_code == 404
    (folder / "wrong.png").write_bytes(png(np.zeros((1, 4, 4))))
    with pytest.raises(InputError, match=r"wrong.png: expected an image of 8 x 8"):
        read_samples(folder, deployed.input_shape, deployed.smoothing.input_range)


def test_samples_of_vectors_are_the_rows_of_arrays(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    shape, input_range = certifier.input_shape, certifier.smoothing.input_range
    rows = np.random.default_rng(0).random((60, *shape)).astype(np.float32)
    (tmp_path / "a.npy").write_bytes(npy(rows[0]))
    (tmp_path / "b.npy").write_bytes(npy(rows[1:]))
    (tmp_path / "c.png").write_bytes(png(IMAGES[0]))
    samples = read_samples(tmp_path, shape, input_range)
    assert list(samples) == ["a", *(f"b-{place}" for place in range(1, 48))]
    with TestClient(create_app(certifier, samples=samples)) as client:
        for name, row in zip(samples, rows, strict=False):
            content = client.get(f"/v1/samples/{name}").content
            assert np.array_equal(np.float32(json.loads(content)), row)
            assert ask(client, content, JSON).status_code == 200
    (tmp_path / "a.npy").write_bytes(npy(rows[:, :2]))
    with pytest.raises(InputError, match=r"a\.npy: expected"):
        read_samples(tmp_path, shape, input_range)
