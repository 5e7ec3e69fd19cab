"""Shards by the workers of a Ray cluster: the parts of the local back end."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rrise
from rrise.deployment import loading
from rrise.votes.cluster import Cluster
from tests.deployment.service.serving import some_images

from .stored import certificates_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is an extra")
    pytest.importorskip("ray.data", reason="Ray Data is an extra of Ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()
    logging.getLogger("ray.data").setLevel(logging.NOTSET)


@pytest.fixture
def folder(images_certifier: rrise.SurrogateCertifier, tmp_path: Path) -> Path:
    images_certifier.save(tmp_path / "certifier")
    np.save(tmp_path / "inputs.npy", some_images(100, seed=8))
    return tmp_path


@pytest.mark.usefixtures("ray")
def test_workers_write_the_parts_of_the_local_back_end_and_resume(folder: Path) -> None:
    call = (folder / "certifier", folder / "inputs.npy")
    here = rrise.certify_dataset(*call, folder / "here", shard=15)
    seen: list[int] = []
    there = rrise.certify_dataset(
        *call, folder / "there", shard=15, cluster=Cluster(workers=2), on_progress=seen.append
    )
    assert (there.issued, there.passes, there.parts, sum(seen)) == (here.issued, here.passes, 7, 100)
    parts = {path.name: path.read_bytes() for path in (folder / "here").glob("part-*")}
    assert {path.name: path.read_bytes() for path in (folder / "there").glob("part-*")} == parts
    (folder / "there" / "part-00003.parquet").unlink()
    again = rrise.certify_dataset(*call, folder / "there", cluster=Cluster(workers=1))
    assert (again.kept, again.issued) == (6, here.issued)
    assert {path.name: path.read_bytes() for path in (folder / "there").glob("part-*")} == parts


@pytest.mark.usefixtures("ray")
def test_a_bad_input_and_missing_gpus_are_sentences(folder: Path) -> None:
    images = some_images(100, seed=8)
    images[40, 0, 0, 0] = 7
    np.save(folder / "bad.npy", images)
    call = (folder / "certifier", folder / "bad.npy")
    with pytest.raises(rrise.RriseError, match=r"bad\.npy, input 40: expected inputs in \[0, 1\]"):
        rrise.certify_dataset(*call, folder / "out", shard=15, cluster=Cluster(workers=2))
    done = rrise.certify_dataset(*call, folder / "out", skip_bad=True, cluster=Cluster(workers=2))
    assert done.errors == 1
    with pytest.raises(rrise.RriseError, match="no worker fits into this cluster"):
        rrise.certify_dataset(*call, folder / "gpu", cluster=Cluster(gpus_per_worker=1))


@pytest.mark.usefixtures("ray")
def test_a_ready_certifier_is_found_by_name_and_travels_with_the_weights_it_shares(
    tmp_path: Path,
) -> None:
    samples = loading.find_samples("cifar-10")
    assert samples is not None
    rrise.certify_dataset("cifar-10", samples, tmp_path / "here")
    rrise.certify_dataset("cifar-10", samples, tmp_path / "there", cluster=Cluster(workers=1))
    here, there = (certificates_in(tmp_path / out) for out in ("here", "there"))
    for name in ("label", "issued", "digest", "file"):
        assert there[name].to_pylist() == here[name].to_pylist()
    assert np.allclose(there["radius"], here["radius"], rtol=0, atol=1e-5)  # with other numbers of threads
