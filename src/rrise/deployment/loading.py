"""Loading a certifier to deploy: one in torch, an exported one in its runtime, or a ready one by name."""

from pathlib import Path
from typing import TYPE_CHECKING

from rrise.certifiers.cascade import Cascade
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import SurrogateWithVotes
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.folder import is_exported, load_exported
from rrise.errors import FolderError, SettingError, as_path, did_you_mean
from rrise.statistics import exactly

if TYPE_CHECKING:
    from torch import nn

READY = ("fashion-mnist", "cifar-10", "cifar-100")
"""The certifiers in the repository, made by `benchmarks/ready_certifier.py`."""
_READY = Path(__file__).parents[3] / "results" / "ready"


def find_certifier(source: str | Path) -> Path:
    """Return the folder of a certifier: that folder itself, or the one of a ready certifier by its name.

    Raises:
        FolderError: there is no such folder, or the repository is not here.
    """
    path, name = as_path(source, "a certifier folder"), str(source)
    if path.exists() or (name not in READY and len(path.parts) > 1):
        return path
    if name not in READY:
        raise FolderError(
            f"expected a certifier folder or the name of a ready certifier ({', '.join(READY)}); there is no "
            f"{name!r}{did_you_mean(name, READY)}"
        )
    return _part(name, "certifier")


def find_samples(source: str | Path) -> Path | None:
    """Return the folder of sample images of a ready certifier; None for any other."""
    return _part(str(source), "samples") if str(source) in READY and not Path(source).exists() else None


def _part(name: str, part: str) -> Path:
    folder = _READY / name / part
    if not folder.is_dir():
        raise FolderError(
            f"the ready certifier {name} is in the repository of rrise, which is not here: clone it, and "
            f"pass the folder results/ready/{name}/{part} in it"
        )
    return folder


def load_deployed(
    folder: str | Path, *, threads: int | None = None, attack_radius: float | None = None
) -> SurrogateCertifier | ExportedCertifier:
    """Load a certifier folder to run in torch, or an exported one to run in its runtime.

    It is first checked against its checksums, its evidence and its probe.

    Args:
        folder: a folder that `SurrogateCertifier.save` or `export_certifier` wrote; or, in a clone of the
            repository, the name of a ready certifier, such as `cifar-10`.
        threads: the most cores for an exported certifier; torch has its own setting.
        attack_radius: how far somebody may have moved an input; the failure follows from it, see
            `SurrogateCertifier.against`. Default: as calibrated.

    Returns:
        A certifier: `certify(inputs)` returns certificates.

    Raises:
        FolderError: the folder is not a certifier, is damaged, or does not compute here what was calibrated.
        SettingError: the certifier has no query noise, or is exported for another attack radius.

    Example:
        certifier = rrise.load_deployed("runs/digits/certifier-onnxruntime-int8")
    """
    path = find_certifier(folder)
    if not is_exported(path):
        loaded = load_certifier(path)
        return loaded if attack_radius is None else loaded.against(attack_radius)
    exported = load_exported(path, threads=threads)
    threat = exported.calibration.threat
    if attack_radius is not None and threat is None:
        raise SettingError(f"{path} adds no noise to queries, so that it has no attack radius")
    own = 0.0 if threat is None else threat.radius
    if attack_radius is not None and attack_radius != own:
        raise SettingError(
            f"{path} is exported for the attack radius {exactly(own)}, got {exactly(attack_radius)}: "
            f"export the certifier again with --attack-radius {exactly(attack_radius)}"
        )
    return exported


def with_base(
    certifier: Certifier, base: "nn.Module", *, votes: int | None = None, radius: float | None = None
) -> Certifier:
    """Return a certifier that uses votes of the base classifier.

    Args:
        certifier: a calibrated surrogate; exported ones take a radius alone.
        base: its base classifier.
        votes: votes to add to each query; see `SurrogateCertifier.with_votes`.
        radius: a wanted radius; below it, Monte Carlo certifies; see `Cascade`.

    Raises:
        SettingError: the certifier cannot do this.
    """
    if votes is not None:
        if not isinstance(certifier, SurrogateCertifier):
            raise SettingError(
                "only a certifier in torch takes votes at query time: pass the folder that was exported"
            )
        certifier = certifier.with_votes(votes, base)
    if radius is None:
        return certifier
    if not isinstance(certifier, SurrogateCertifier | SurrogateWithVotes | ExportedCertifier):
        raise SettingError("a wanted radius needs a calibrated surrogate first")
    return Cascade(certifier, base, radius=radius)
