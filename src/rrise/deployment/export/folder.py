"""The folder of an exported certifier, for a service or any program with the runtime.

certifier.onnx         from images to certificates; float32 in, the calibration inside
certifier.json         every number and word, and the SHA-256 of every other file and of itself
calibration.parquet    per calibration input, in the exported form: the data of the offset
probe.npz              inputs, and the graph's answers to them at export
README.md              the card
"""

import io
import logging
import platform
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rrise._version import __version__
from rrise.certifiers.guarantee import Guarantee
from rrise.certifiers.stored_calibration import (
    calibration_from_json,
    calibration_to_json,
    check_calibration,
    load_evidence,
    save_evidence,
    stored_guarantee,
)
from rrise.deployment.export.card import card
from rrise.deployment.export.exported import Export, ExportedCertifier, ExportProbe
from rrise.deployment.export.runtimes import Form, open_model
from rrise.errors import FolderError
from rrise.files import (
    Json,
    as_written,
    check_files,
    checksums,
    new_folder,
    read_json,
    read_signed_json,
    write_bytes,
    write_signed_json,
    write_text,
)
from rrise.votes.smoothing import Smoothing

_log = logging.getLogger("rrise.deployment")

FORMAT = 1
KIND = "rrise exported certifier"
MODEL = "certifier.onnx"
MANIFEST = "certifier.json"
EVIDENCE = "calibration.parquet"
PROBE = "probe.npz"
CARD = "README.md"


def save_exported(folder: Path, export: Export, content: bytes, probe: ExportProbe, more: Json) -> None:
    """Write the folder atomically: on an error, an existing folder stays and no new one appears.

    `more` holds further entries of the manifest: `opset` and `cost`.
    """
    check_free(folder)
    with new_folder(folder) as new:
        write_bytes(new / MODEL, content)
        save_evidence(export.evidence, new / EVIDENCE)
        _save_probe(probe, new / PROBE)
        write_text(new / CARD, card(export, more))
        write_signed_json(new / MANIFEST, {**_manifest(export), **more, "files": checksums(new)})


def load_exported(folder: Path, *, threads: int | None = None) -> ExportedCertifier:
    """Open an exported certifier in its runtime, and check that it is complete and consistent.

    The checks compare every file with its checksum, the offset and the guarantee with the evidence, the
    graph with the form and the calibration in the manifest, and the answers to the probe with those at
    export.
    """
    manifest = _checked_manifest(folder)
    with as_written(folder / MANIFEST):
        smoothing = Smoothing.from_json(manifest["smoothing"])
        guarantee = stored_guarantee(manifest["guarantee"], smoothing, folder)
        export = _export_from(manifest, guarantee, folder)
        check_calibration(export.calibration, export.evidence, folder)
        if guarantee != export.guarantee:
            raise FolderError(
                f"{folder} contradicts itself: its guarantee does not follow from its calibration"
            )
        then, now = manifest["form"]["version"], export.form.version
    with as_written(folder / PROBE):
        probe = _load_probe(folder / PROBE)
        if probe.inputs.shape[1:] != export.input_shape:
            raise FolderError(
                f"{folder} contradicts itself: its probe does not match the shape of its inputs"
            )
    if then != now:
        _log.warning("%s was calibrated in %s %s, and runs in %s", folder, export.form.runtime, then, now)
    content = (folder / MODEL).read_bytes()
    if export.identity.encode() not in content:
        raise FolderError(
            f"{folder / MODEL} was not calibrated in the form ({export.form.name}) or with the numbers in "
            f"{folder / MANIFEST}: an offset is valid only for the graph and the runtime it was fitted to"
        )
    exported = ExportedCertifier(export, open_model(export.form, content, threads=threads), probe.inputs)
    exported.check(probe, folder)
    return exported


def read_cost(folder: Path) -> Json:
    """Return the cost of calibrating in the exported form, from the manifest."""
    cost: Json = _checked_manifest(folder)["cost"]
    return cost


def load_graph(folder: Path) -> Any:
    """Return the ONNX model of an exported certifier."""
    import onnx

    return onnx.load(folder / MODEL)


def is_exported(folder: Path) -> bool:
    """Tell whether the manifest of a folder names an exported certifier."""
    return (folder / MANIFEST).is_file() and read_json(folder / MANIFEST).get("kind") == KIND


def check_free(folder: Path) -> None:
    """Refuse to overwrite anything but an exported certifier."""
    if not folder.exists():
        return
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if not names or (names <= {MODEL, MANIFEST, EVIDENCE, PROBE, CARD} and is_exported(folder)):
            return
    raise FolderError(
        f"{folder} exists and is not an exported certifier, or also holds other files: choose another name"
    )


def _manifest(export: Export) -> Json:
    form = export.form
    return {
        "format": FORMAT,
        "kind": KIND,
        "form": {"runtime": form.runtime, "version": form.version, "numbers": form.numbers},
        "identity": export.identity,
        "smoothing": export.smoothing.to_json(),
        "input_shape": list(export.input_shape),
        "class_names": list(export.class_names),
        "calibration": calibration_to_json(export.calibration),
        "ranges": export.ranges,
        "guarantee": export.guarantee.to_json(),
        "made_with": {
            "rrise": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "onnx", "numpy", "scipy")},
        },
    }


def _export_from(manifest: Json, guarantee: Guarantee, folder: Path) -> Export:
    facts = guarantee.calibration
    if facts is None:
        raise FolderError(f"{folder / MANIFEST} is damaged or edited: its guarantee names no calibration")
    return Export(
        form=Form(str(manifest["form"]["runtime"]), str(manifest["form"]["numbers"])),
        input_shape=tuple(int(size) for size in manifest["input_shape"]),
        class_names=tuple(str(name) for name in manifest["class_names"]),
        smoothing=guarantee.smoothing,
        calibration=calibration_from_json(manifest["calibration"]),
        evidence=load_evidence(folder / EVIDENCE),
        seen_in_training=facts.seen_in_training,
        ranges=manifest["ranges"],
        source=facts.source,
    )


def _checked_manifest(folder: Path) -> Json:
    if (found := read_json(folder / MANIFEST).get("format")) != FORMAT:
        raise FolderError(
            f"expected format {FORMAT} in {folder / MANIFEST}, got {found!r}: this version of rrise "
            f"({__version__}) cannot read it"
        )
    manifest = read_signed_json(folder / MANIFEST)
    files = manifest.get("files")
    if not isinstance(files, dict) or not {MODEL, EVIDENCE, PROBE} <= set(files):
        raise FolderError(f"{folder / MANIFEST} does not list the files of an exported certifier")
    check_files(folder, files, MANIFEST)
    return manifest


def _save_probe(probe: ExportProbe, path: Path) -> None:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"inputs": probe.inputs, **probe.expected}
    np.savez(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def _load_probe(path: Path) -> ExportProbe:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise FolderError(f"{path} is damaged: it is not a readable .npz file ({error})") from None
    return ExportProbe(content.pop("inputs"), content)
