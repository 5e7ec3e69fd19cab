"""Static quantisation of a surrogate to int8, by ONNX Runtime's quantiser.

The inputs that choose the activation ranges have no part in fitting the offset. A surrogate whose ranges
depend on some calibration inputs treats these differently from new inputs. Their scores would no longer be
exchangeable.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from rrise.deployment.export.input_names import IMAGES

_LAYERS = ("Conv", "Gemm", "MatMul", "Add")
_BATCH = 16


def quantised(surrogate: Any, inputs: NDArray[np.float32]) -> Any:
    """Return a surrogate's ONNX model with convolutions, linear layers and sums in int8.

    `inputs` choose the ranges. Weights take 7 bits: with 8, the 16-bit sums of processors without VNNI would
    overflow. All processors thus compute the same numbers.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory() as folder, _without_advice():
        written = Path(folder) / "surrogate.onnx"
        quantize_static(
            surrogate,
            written,
            _Batches(inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(_LAYERS),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(written)


class _Batches:
    """The inputs in the form that the quantiser reads."""

    def __init__(self, inputs: NDArray[np.float32]) -> None:
        self._left = iter([inputs[start : start + _BATCH] for start in range(0, len(inputs), _BATCH)])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """Return the next batch, or None after the last."""
        batch = next(self._left, None)
        return None if batch is None else {IMAGES: batch}


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Suppress the quantiser's general advice in the log."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
