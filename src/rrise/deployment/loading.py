"""Loading a certifier to deploy: one in torch, or an exported one in its runtime."""

from pathlib import Path

from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.folder import is_exported, load_exported


def load_deployed(
    folder: str | Path, *, threads: int | None = None
) -> SurrogateCertifier | ExportedCertifier:
    """Load a certifier folder, to run in torch, or an exported one, to run in its runtime.

    Either is checked against its checksums, its evidence and its probe first.

    Args:
        folder: what `SurrogateCertifier.save` or `export_certifier` wrote.
        threads: limits the cores that an exported one uses; torch has a setting of its own.

    Returns:
        A certifier: `certify(inputs)` returns certificates.

    Raises:
        FolderError: the folder is no certifier, is damaged, or does not compute here what was calibrated.

    Example:
        certifier = rrise.load_deployed("runs/digits/certifier-onnxruntime-int8")
    """
    path = Path(folder)
    if is_exported(path):
        return load_exported(path, threads=threads)
    return load_certifier(path)
