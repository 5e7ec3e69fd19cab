"""Samples for the page, read once from the folder given at the start of the service."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.data.files import ARRAYS, find_files, read_inputs
from rrise.data.images import IMAGES
from rrise.data.inputs import InputRange
from rrise.deployment.service.requests import JSON_TYPE

MOST = 48


@dataclass(frozen=True)
class Sample:
    """An input as a request may send it: its name, type and bytes."""

    name: str
    content_type: str
    content: bytes


def takes_images(shape: tuple[int, ...], input_range: InputRange) -> bool:
    """Whether an image file can hold an input."""
    return len(shape) == 3 and shape[0] in (1, 3) and input_range == (0.0, 1.0)


def read_samples(folder: Path, shape: tuple[int, ...], input_range: InputRange) -> dict[str, Sample]:
    """Return the first inputs of a folder by name; raise if the certifier does not accept one.

    They are images, or else the inputs in arrays, as JSON.
    """
    kinds = IMAGES if takes_images(shape, input_range) else ARRAYS
    samples: dict[str, Sample] = {}
    for path in find_files([folder]):
        if path.suffix.lower() not in kinds:
            continue
        inputs = read_inputs(path, shape, input_range).numpy()
        if kinds == IMAGES:
            kind = "image/png" if path.suffix.lower() == ".png" else "image/jpeg"
            samples[path.name] = Sample(path.name, kind, path.read_bytes())
        else:
            for place, values in enumerate(inputs[: MOST - len(samples)], 1):
                name = path.stem if len(inputs) == 1 else f"{path.stem}-{place}"
                samples[name] = Sample(name, JSON_TYPE, _as_json(values))
        if len(samples) == MOST:
            break
    return samples


def _as_json(values: NDArray[np.float32]) -> bytes:
    """Write an array with as few digits as its numbers need."""
    short = np.array([str(value) for value in values.ravel()], dtype=np.float64).reshape(values.shape)
    return json.dumps(short.tolist()).encode()
