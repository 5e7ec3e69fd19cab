"""The certifier folder, for deployment. It is self-contained and can be copied to another machine.

    certifier.json         every number and word, and the SHA-256 of every other file and of itself
    surrogate.safetensors  the weights
    program.json           the surrogate's graph (absent if it could not be written as one)
    probe.safetensors      two typical inputs and the surrogate's logits for them, checked on loading
    calibration.parquet    per calibration input: the data that the offset was computed from
    held-out.safetensors   the calibration inputs and their votes, for an export; may be deleted
    README.md              the model card

Checksums detect damage and careless edits. They are not a signature: anyone can recompute them.
"""

import copy
import json
import platform
from importlib.metadata import version
from pathlib import Path

from torch import nn

from rrise._version import __version__
from rrise.certifiers.card import model_card
from rrise.certifiers.guarantee import Guarantee, surrogate_guarantee
from rrise.certifiers.held_out import HELD_OUT
from rrise.certifiers.probe import Probe
from rrise.certifiers.stored_calibration import (
    calibration_from_json,
    calibration_to_json,
    check_calibration,
    load_evidence,
    load_query,
    save_evidence,
    save_query,
    stored_guarantee,
)
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import FolderError, MismatchError, as_path
from rrise.files import (
    Json,
    as_written,
    check_files,
    checksums,
    new_folder,
    read_json,
    read_signed_json,
    write_signed_json,
    write_text,
)
from rrise.models.program import Program
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.statistics import Calibration, CalibrationEvidence
from rrise.votes.smoothing import Smoothing

FORMAT = 1
KIND = "rrise surrogate certifier"
MANIFEST = "certifier.json"
WEIGHTS = "surrogate.safetensors"
PROGRAM = "program.json"
PROBE = "probe.safetensors"
EVIDENCE = "calibration.parquet"
QUERY = "query-votes.parquet"
CARD = "README.md"


def save_certifier(certifier: SurrogateCertifier, folder: Path) -> None:
    """Write a certifier folder atomically: on an error, an existing folder stays and no new one appears."""
    if folder.exists() and not _replaceable(folder):
        raise FolderError(
            f"{folder} exists and is not a certifier folder, or also holds other files: choose another name"
        )
    with new_folder(folder) as new:
        _save_network(certifier, new)
        save_tensors(new / PROBE, {"inputs": certifier.probe.inputs, "logits": certifier.probe.logits})
        save_evidence(certifier.evidence, new / EVIDENCE)
        if certifier.query is not None:
            save_query(certifier.query, new / QUERY)
        write_text(new / CARD, model_card(certifier))
        write_signed_json(new / MANIFEST, _manifest(certifier, new))
        if certifier.held_out is not None:
            certifier.held_out.save(new)


def load_certifier(folder: str | Path, *, surrogate: nn.Module | None = None) -> SurrogateCertifier:
    """Read a certifier folder and check that it is complete and consistent.

    The checks compare every file with its checksum, the offset and the guarantee's numbers with the
    evidence, and the surrogate's logits with those at the time of saving.

    Args:
        folder: a folder that `SurrogateCertifier.save` wrote.
        surrogate: a module of the surrogate's architecture, which receives the weights. Needed only if the
            surrogate could not be written as a program; `calibrate` warns of that.

    Returns:
        The certifier, on the CPU.

    Raises:
        FolderError: the folder is missing, damaged or inconsistent, or the surrogate computes other logits.
        MismatchError: `surrogate` is missing, or the folder does not need it.

    Example:
        certifier.save("certifier")
        certifier = rrise.load_certifier("certifier")
    """
    path = as_path(folder, "a certifier folder")
    manifest = _checked_manifest(path)
    with as_written(path / MANIFEST):
        calibration = calibration_from_json(manifest["calibration"])
        smoothing = Smoothing.from_json(manifest["smoothing"])
        evidence = load_evidence(path / EVIDENCE)
        check_calibration(calibration, evidence, path)
        guarantee = _checked_guarantee(manifest["guarantee"], calibration, smoothing, evidence, path)
        network, program = _load_network(path, manifest, surrogate)
        certifier = SurrogateCertifier(
            network=network,
            program=program,
            probe=Probe(**load_tensors(path / PROBE)),
            input_shape=tuple(int(size) for size in manifest["input_shape"]),
            smoothing=smoothing,
            calibration=calibration,
            evidence=evidence,
            guarantee=guarantee,
            class_names=tuple(str(name) for name in manifest["class_names"]),
            query=load_query(path / QUERY, calibration, evidence) if QUERY in manifest["files"] else None,
        )
        _check_probe(certifier, path)
    return certifier


def _manifest(certifier: SurrogateCertifier, folder: Path) -> Json:
    return {
        "format": FORMAT,
        "kind": KIND,
        "smoothing": certifier.smoothing.to_json(),
        "input_shape": list(certifier.input_shape),
        "class_names": list(certifier.class_names),
        "surrogate": "program" if certifier.program else type(certifier.network).__qualname__,
        "calibration": calibration_to_json(certifier.calibration),
        "guarantee": certifier.guarantee.to_json(),
        "made_with": {
            "rrise": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scipy")},
        },
        "files": checksums(folder),
    }


def _checked_manifest(folder: Path) -> Json:
    if not folder.is_dir():
        raise FolderError(f"expected a certifier folder at {folder}, but there is none")
    if not (folder / MANIFEST).exists():
        inside = folder / "certifier"
        hint = f"; did you mean {inside}?" if (inside / MANIFEST).exists() else ""
        raise FolderError(f"{folder} is not a certifier folder: it holds no {MANIFEST}{hint}")
    if (kind := read_json(folder / MANIFEST).get("kind", KIND)) != KIND:
        raise FolderError(
            f"expected the folder of a certifier in torch; {folder} holds an "
            f"{str(kind)[:40].removeprefix('rrise ')}: pass the folder that it was exported from"
        )
    if (found := read_json(folder / MANIFEST).get("format")) != FORMAT:
        raise FolderError(
            f"expected format {FORMAT} in {folder / MANIFEST}, got {found!r}: this version of rrise "
            f"({__version__}) cannot read it"
        )
    manifest = read_signed_json(folder / MANIFEST)
    files = manifest.get("files")
    if not isinstance(files, dict) or not {WEIGHTS, PROBE, EVIDENCE} <= set(files):
        raise FolderError(f"{folder / MANIFEST} does not list the files of a certifier")
    check_files(folder, files, MANIFEST)
    return manifest


def _checked_guarantee(
    stored: Json,
    calibration: Calibration,
    smoothing: Smoothing,
    evidence: CalibrationEvidence,
    folder: Path,
) -> Guarantee:
    """Return the guarantee that follows from the calibration; refuse stored facts that differ."""
    guarantee = stored_guarantee(stored, smoothing, folder)
    facts = guarantee.calibration
    if facts is not None and 0 <= (facts.seen_in_training or 0) <= calibration.size:
        again = surrogate_guarantee(
            calibration, evidence, smoothing, facts.seen_in_training, source=facts.source
        )
        if again == guarantee:
            return again
    raise FolderError(f"{folder} contradicts itself: its guarantee does not follow from its calibration")


def _check_probe(certifier: SurrogateCertifier, folder: Path) -> None:
    groups = certifier.calibration.groups
    if groups is not None and len(groups) != len(certifier.class_names):
        raise FolderError(f"{folder} contradicts itself: its groups are not of its classes")
    shapes = (tuple(certifier.probe.inputs.shape[1:]), certifier.probe.logits.shape[1])
    if shapes != (certifier.input_shape, len(certifier.class_names)):
        raise FolderError(
            f"{folder} contradicts itself: its probe does not match the shape of its inputs or classes"
        )
    if not certifier.probe.agrees_with(certifier.network):
        raise FolderError(
            f"the surrogate in {folder} does not compute here what it computed when it was saved: its "
            f"calibration is not valid here"
        )


def _replaceable(folder: Path) -> bool:
    """Tell whether a folder is empty, or a certifier folder with nothing else in it."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    if not names:
        return True
    try:
        manifest = read_signed_json(folder / MANIFEST)
    except FolderError:
        return False
    ours = manifest.get("kind", KIND) == KIND
    return ours and names <= {MANIFEST, HELD_OUT, "manifest.json", *manifest.get("files", ())}


def _save_network(certifier: SurrogateCertifier, folder: Path) -> None:
    if certifier.program is None:
        save_tensors(folder / WEIGHTS, certifier.network.state_dict())
    else:
        write_text(folder / PROGRAM, json.dumps(certifier.program.graph, allow_nan=False))
        save_tensors(folder / WEIGHTS, certifier.program.weights)


def _load_network(
    folder: Path, manifest: Json, surrogate: nn.Module | None
) -> tuple[nn.Module, Program | None]:
    tensors = load_tensors(folder / WEIGHTS)
    if PROGRAM in manifest["files"]:
        if surrogate is not None:
            raise MismatchError(f"{folder} holds its surrogate as a program: load it without surrogate=")
        program = Program(read_json(folder / PROGRAM), tensors)
        return program.module(), program
    if surrogate is None:
        raise MismatchError(
            f"the surrogate in {folder} is a {manifest['surrogate']} that could not be saved as a program: "
            f"load it with load_certifier(folder, surrogate=a module of that class)"
        )
    network = copy.deepcopy(surrogate)
    load_weights(network, tensors, str(folder))
    return network.cpu().eval().requires_grad_(False), None
