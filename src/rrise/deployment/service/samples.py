"""Sample images for the page, read once from the folder given at the start of the service."""

from dataclasses import dataclass
from pathlib import Path

from rrise.data.files import find_files, read_inputs
from rrise.data.images import IMAGES
from rrise.data.inputs import InputRange

MOST = 48


@dataclass(frozen=True)
class Sample:
    """An image file: its name, type and bytes."""

    name: str
    content_type: str
    content: bytes


def read_samples(folder: Path, shape: tuple[int, ...], input_range: InputRange) -> dict[str, Sample]:
    """Return the first images of a folder by name; raise if the certifier does not accept one."""
    samples: dict[str, Sample] = {}
    for path in find_files([folder]):
        if path.suffix.lower() not in IMAGES or len(samples) == MOST:
            continue
        read_inputs(path, shape, input_range)
        kind = "image/png" if path.suffix.lower() == ".png" else "image/jpeg"
        samples[path.name] = Sample(path.name, kind, path.read_bytes())
    return samples
