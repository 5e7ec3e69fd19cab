"""Loading a certifier to deploy: one in torch, or an exported one in its runtime."""

from pathlib import Path

from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.folder import is_exported, load_exported


def load_deployed(
    folder: str | Path, *, threads: int | None = None
) -> SurrogateCertifier | ExportedCertifier:
    """Load a certifier folder to run in torch, or an exported one to run in its runtime.

    It is first checked against its checksums, its evidence and its probe.

    Args:
        folder: a folder that `SurrogateCertifier.save` or `export_certifier` wrote.
        threads: the most cores for an exported certifier; torch has its own setting.

    Returns:
        A certifier: `certify(inputs)` returns certificates.

    Raises:
        FolderError: the folder is not a certifier, is damaged, or does not compute here what was calibrated.

    Example:
        certifier = rrise.load_deployed("runs/digits/certifier-onnxruntime-int8")
    """
    path = Path(folder)
    if is_exported(path):
        return load_exported(path, threads=threads)
    return load_certifier(path)
