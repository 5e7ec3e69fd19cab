"""The runtimes that an exported certifier runs in, all on the CPU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rrise.errors import FolderError, SettingError

ONNX_RUNTIME, OPENVINO = "onnxruntime", "openvino"
IMAGES = "images"
Outputs = Mapping[str, NDArray[Any]]
_BATCH = 256


@dataclass(frozen=True)
class Form:
    """What computes an exported surrogate: which runtime, in which numbers (`fp32` or `int8`)."""

    runtime: str
    numbers: str

    @property
    def name(self) -> str:
        """The name, such as `onnxruntime-int8`."""
        return f"{self.runtime}-{self.numbers}"

    @property
    def version(self) -> str:
        """Which version of the runtime is here."""
        try:
            return version(self.runtime)
        except PackageNotFoundError:
            extra = "onnx" if self.runtime == ONNX_RUNTIME else self.runtime
            raise SettingError(
                f"this needs {self.runtime}, which is not installed: pip install 'rrise[{extra}]'"
            ) from None


class Runner(Protocol):
    """A model in a runtime; several threads may use it at once."""

    def run(self, inputs: NDArray[np.float32]) -> Outputs:
        """Return the outputs of a batch by name."""


def open_model(form: Form, content: bytes, *, threads: int | None = None) -> Runner:
    """Open an ONNX model in the runtime of a form; `threads` limits the cores it uses."""
    form.version  # noqa: B018  a sentence where the runtime is missing
    kinds: dict[str, Callable[[bytes, int | None], Runner]] = {
        ONNX_RUNTIME: _OnnxRuntime,
        OPENVINO: _OpenVino,
    }
    if form.runtime not in kinds:
        raise SettingError(f"expected a runtime out of {', '.join(kinds)}; got {form.runtime!r}")
    try:
        return kinds[form.runtime](content, threads)
    except Exception as error:  # runtimes raise kinds of their own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FolderError(f"{form.runtime} cannot open the exported certifier: {reason}") from error


def run_in_batches(runner: Runner, inputs: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Return the outputs of many inputs, at least one, by name."""
    parts = [runner.run(inputs[start : start + _BATCH]) for start in range(0, len(inputs), _BATCH)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _OnnxRuntime:
    """A loaded model of ONNX Runtime."""

    def __init__(self, content: bytes, threads: int | None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or 0
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: NDArray[np.float32]) -> Outputs:
        """Return the outputs of a batch by name."""
        return dict(zip(self._names, self._session.run(self._names, {IMAGES: inputs}), strict=True))


class _OpenVino:
    """A compiled model of OpenVINO, kept to float32: by itself it may choose bfloat16."""

    def __init__(self, content: bytes, threads: int | None) -> None:
        import openvino

        core = openvino.Core()
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if threads is not None:
            settings["INFERENCE_NUM_THREADS"] = threads
        self._model = core.compile_model(core.read_model(content), "CPU", settings)
        self._names = [output.get_any_name() for output in self._model.outputs]

    def run(self, inputs: NDArray[np.float32]) -> Outputs:
        """Return the outputs of a batch by name."""
        found = self._model.create_infer_request().infer({IMAGES: inputs})
        return {name: np.array(found[name]) for name in self._names}
