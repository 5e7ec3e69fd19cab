"""Images of a dataset as files."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def png_bytes(image: NDArray[np.uint8]) -> bytes:
    """Encode an image `[channels, height, width]` with 1 or 3 channels as PNG."""
    pixels = image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG")
    return buffer.getvalue()
