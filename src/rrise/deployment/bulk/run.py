"""Certificates of a whole dataset: what is there is kept, the rest is computed shard by shard."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rrise.certifiers.certifier import Certifier
from rrise.certifiers.guarantee import Guarantee
from rrise.certifiers.surrogate import SurrogateCertifier, on_device
from rrise.deployment.bulk.certifying import ShardCertifier
from rrise.deployment.bulk.inputs import Reader, list_inputs
from rrise.deployment.bulk.kinds import Wanted
from rrise.deployment.bulk.manifest import SHARD, BulkManifest, read_manifest, write_manifest
from rrise.deployment.bulk.output import OutputFolder
from rrise.deployment.loading import find_certifier, load_deployed
from rrise.errors import SettingError
from rrise.models.inference import BATCH_SIZE
from rrise.progress import OnProgress
from rrise.votes.cluster import Cluster
from rrise.votes.manifest import MANIFEST
from rrise.votes.storage import storage_at


@dataclass(frozen=True)
class BulkResult:
    """What `certify_dataset` has done.

    Attributes:
        out: the folder or URL of the certificates.
        inputs: how many inputs there are.
        issued: how many certificates have a radius.
        abstained: how many have none.
        errors: how many inputs could not be certified; 0 unless bad ones are skipped.
        passes: forward passes of all certificates.
        parts: how many Parquet files there are.
        kept: how many of them were there before.
        guarantee: what every certificate promises.
    """

    out: str
    inputs: int
    issued: int
    abstained: int
    errors: int
    passes: int
    parts: int
    kept: int
    guarantee: Guarantee


def certify_dataset(
    certifier: Certifier | str | Path,
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    column: str | None = None,
    batch_size: int = BATCH_SIZE,
    shard: int | None = None,
    skip_bad: bool = False,
    device: str | None = None,
    cluster: Cluster | None = None,
    on_start: OnProgress | None = None,
    on_progress: OnProgress | None = None,
) -> BulkResult:
    """Certify files of inputs of any size into a folder of Parquet files; the same call resumes.

    Memory stays bounded: inputs are read a part at a time, while those before are certified. Each part of
    the output appears at once and holds a checksum. After an interruption, even `kill -9`, the same call
    computes the missing and the damaged parts. Several processes may work on one local folder.

    A certifier with query noise draws fresh noise for each input. An input whose part was not finished is
    certified again with other noise. Count this as one more try, if the attacker sees both answers.

    Args:
        certifier: any certifier, or the folder of one, exported or not.
        inputs: files, folders, fsspec URLs and patterns of them: PNG and JPEG images, `.npy` and `.npz`
            arrays, and Parquet files.
        out: a folder, or an fsspec URL such as `s3://bucket/certificates`.
        column: the column of Parquet files, or the array of `.npz` files. Default: the only one that fits.
        batch_size: inputs to a forward pass of a surrogate.
        shard: inputs to a part. Default: as begun, else 16,384.
        skip_bad: give bad inputs a row with the reason in `error`. Default: the first one is an error.
        device: where a surrogate in torch computes, such as `cuda`. Default: where it is.
        cluster: a Ray cluster that computes; the certifier must be a folder. Default: this process.
        on_start: called once with the number of inputs, when they have been counted.
        on_progress: called with the number of inputs done since the last call.

    Returns:
        The outcome in numbers; the certificates are in `out`.

    Raises:
        FolderError: a file or the folder cannot be read or written.
        InputError: an input is bad. The sentence names it.
        MismatchError: `out` was begun with another certifier, or the inputs have changed since.
        SettingError: a setting is invalid.

    Example:
        >>> import numpy as np, torch, rrise
        >>> certifier = rrise.MonteCarlo(100).bind(torch.nn.Linear(2, 2), sigma=0.25, input_shape=(2,))
        >>> np.save("inputs.npy", np.random.default_rng(0).random((50, 2), dtype=np.float32))
        >>> done = rrise.certify_dataset(certifier, "inputs.npy", "certificates", shard=20)
        >>> done.inputs, done.parts, done.passes
        (50, 3, 10000)
    """
    if batch_size < 1 or (shard is not None and shard < 1):
        raise SettingError(f"expected batch_size and shard of at least 1, got {batch_size} and {shard}")
    given = [os.fspath(one) for one in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    _check_apart(os.fspath(out), given)
    loaded = _loaded(certifier, device, cluster)
    wanted = Wanted(loaded.input_shape, loaded.smoothing.input_range, column)
    storage = storage_at(out)
    with storage.claim(MANIFEST, wait=True):
        found = read_manifest(storage)
        listing = list_inputs(given, wanted)
        size = shard or (SHARD if found is None else found.shard)
        manifest = BulkManifest.of(loaded, given, listing, wanted, size)
        if found is None:
            write_manifest(storage, manifest, loaded)
        else:
            manifest.check_continues(found, str(storage))
    if on_start is not None:
        on_start(len(listing))
    folder = OutputFolder(storage, manifest, on_progress)
    with Reader(listing, wanted, skip_bad=skip_bad) as reader:
        folder.look(reader)
        if cluster is None:
            folder.fill(ShardCertifier(loaded, reader, batch_size))
        elif folder.todo:
            _fill_by_workers(folder, certifier, reader, batch_size, cluster)
    counts = folder.counts
    return BulkResult(
        str(storage),
        len(listing),
        counts.issued,
        counts.abstained,
        counts.errors,
        counts.passes,
        manifest.parts,
        folder.kept,
        loaded.guarantee,
    )


def _fill_by_workers(
    folder: OutputFolder,
    certifier: Certifier | str | Path,
    reader: Reader,
    batch_size: int,
    cluster: Cluster,
) -> None:
    from rrise.deployment.bulk.on_ray import RayShards

    if not isinstance(certifier, str | Path):
        raise SettingError("the workers of a cluster load the certifier: pass its folder")
    with RayShards(find_certifier(certifier), reader, batch_size, cluster) as workers:
        folder.fill_alone(workers)


def _loaded(certifier: Certifier | str | Path, device: str | None, cluster: Cluster | None) -> Certifier:
    """Return the certifier, with the guarantee that it has where it computes."""
    loaded = load_deployed(certifier) if isinstance(certifier, str | Path) else certifier
    if cluster is not None:
        if device is not None:
            raise SettingError("gpus_per_worker sets the device of Ray workers: remove device")
        device = "cuda" if cluster.device == "cuda" else None
    if device is None:
        return loaded
    if not isinstance(loaded, SurrogateCertifier):
        raise SettingError(f"only a surrogate in torch computes on {device}, this is {loaded.runtime}")
    if cluster is None:
        return loaded.to(device)
    return replace(loaded, guarantee=on_device(loaded.guarantee, loaded.network, device))


def _check_apart(out: str, inputs: Iterable[str]) -> None:
    """Refuse to write certificates among the inputs: they would be found as inputs."""
    for place in inputs:
        inner, outer = ((one if "://" in one else f"{Path(one).absolute()}") for one in (out, place))
        if f"{inner}/".startswith(f"{outer.rstrip('/')}/"):
            raise SettingError(f"{out} is inside of {place}, which holds the inputs: choose another folder")
