"""The runtimes of exported certifiers, all on the CPU.

A runtime defines its name, what to install, how to open a model, and the usage text of cards. To add one,
call `register_runtime(Runtime(...))`; the command line, cards and folders read it from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

from rrise.errors import FolderError, SettingError, did_you_mean
from rrise.registry import register

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Outputs = Mapping[str, "NDArray[Any]"]
NUMBERS = ("fp32", "int8")
_BATCH = 256


class Runner(Protocol):
    """A model in a runtime; it is thread-safe."""

    def run(self, inputs: "NDArray[np.float32]") -> Outputs:
        """Return the outputs of a batch by name."""


@dataclass(frozen=True)
class Runtime:
    """The software that runs an exported certifier.

    Attributes:
        name: its name in files and on the command line; also the name of its package.
        label: its name on pages.
        extra: the extra of this package that installs it.
        open: opens an ONNX model, on at most the given number of cores.
        usage: Python lines that compute `answers` from `images` without this package.
    """

    name: str
    label: str
    extra: str
    open: Callable[[bytes, int | None], Runner]
    usage: str


RUNTIMES: dict[str, Runtime] = {}


def register_runtime(runtime: Runtime) -> Runtime:
    """Register a runtime under its name, which must be new."""
    return register(RUNTIMES, runtime.name, runtime, "runtime")


def runtime_by_name(name: str) -> Runtime:
    """Return a registered runtime."""
    if name not in RUNTIMES:
        known = ", ".join(RUNTIMES)
        raise SettingError(f"expected a runtime out of {known}; got {name!r}{did_you_mean(name, RUNTIMES)}")
    return RUNTIMES[name]


@dataclass(frozen=True)
class Form:
    """The form of an exported surrogate: its runtime and its numbers (`fp32` or `int8`)."""

    runtime: str
    numbers: str

    @property
    def name(self) -> str:
        """The name, such as `onnxruntime-int8`."""
        return f"{self.runtime}-{self.numbers}"

    @property
    def version(self) -> str:
        """The installed version of the runtime."""
        try:
            return version(self.runtime)
        except PackageNotFoundError:
            extra = runtime_by_name(self.runtime).extra
            raise SettingError(f"{self.runtime} is not installed: pip install 'rrise[{extra}]'") from None


def open_model(form: Form, content: bytes, *, threads: int | None = None) -> Runner:
    """Open an ONNX model in the runtime of a form; `threads` limits the cores it uses."""
    runtime = runtime_by_name(form.runtime)
    form.version  # noqa: B018  raises if the runtime is missing
    try:
        return runtime.open(content, threads)
    except Exception as error:  # runtimes raise their own kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FolderError(f"{form.runtime} cannot open the exported certifier: {reason}") from error


def run_in_batches(
    runner: Runner, inputs: "NDArray[np.float32]", batch_size: int = _BATCH
) -> "dict[str, NDArray[Any]]":
    """Return the outputs of one or more inputs, by name."""
    import numpy as np

    if len(inputs) <= batch_size:
        return dict(runner.run(inputs))
    starts = range(0, len(inputs), batch_size)
    parts = [runner.run(inputs[start : start + batch_size]) for start in starts]
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
        self._input = self._session.get_inputs()[0].name

    def run(self, inputs: "NDArray[np.float32]") -> Outputs:
        """Return the outputs of a batch by name."""
        return dict(zip(self._names, self._session.run(self._names, {self._input: inputs}), strict=True))


class _OpenVino:
    """A compiled model of OpenVINO, restricted to float32: by default it may choose bfloat16."""

    def __init__(self, content: bytes, threads: int | None) -> None:
        import openvino

        core = openvino.Core()
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if threads is not None:
            settings["INFERENCE_NUM_THREADS"] = threads
        self._model = core.compile_model(core.read_model(content), "CPU", settings)
        self._names = [output.get_any_name() for output in self._model.outputs]

    def run(self, inputs: "NDArray[np.float32]") -> Outputs:
        """Return the outputs of a batch by name."""
        import numpy as np

        found = self._model.create_infer_request().infer([inputs])
        return {name: np.array(found[name]) for name in self._names}


ONNX_RUNTIME = register_runtime(
    Runtime(
        "onnxruntime",
        "ONNX Runtime",
        "onnx",
        _OnnxRuntime,
        """import onnxruntime

session = onnxruntime.InferenceSession("certifier.onnx", providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
answers = dict(zip(names, session.run(names, {"images": images})))""",
    )
)
OPENVINO = register_runtime(
    Runtime(
        "openvino",
        "OpenVINO",
        "openvino",
        _OpenVino,
        """import openvino

float32 = {"INFERENCE_PRECISION_HINT": "f32"}  # by itself it may choose bfloat16, which was not calibrated
answers = openvino.Core().compile_model("certifier.onnx", "CPU", float32)({"images": images})""",
    )
)
