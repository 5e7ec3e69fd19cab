"""The certifier as an ONNX graph: the surrogate, followed by all steps up to the certificate.

    images float32 [batch, *input_shape]
      -> label int64, radius float32, lower_bound float32, issued bool  [batch]
         probabilities float32 [batch, K]

No radius is issued if the input has NaN or a value outside the input range, or if a logit is not finite.
The graph checks the input itself, because not every runtime propagates NaN through a network.

If queries have secret noise, the input is called `noisy_images`: the noise is added before the graph. ONNX
has random operators, but their numbers can be predicted: ONNX Runtime seeds them with 32 bits of the clock,
or with a number stored in the graph. Whoever runs the graph on plain images by mistake gets an error.
"""

import contextlib
import io
import logging
import warnings
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from rrise.data.inputs import InputRange
from rrise.deployment.export.bound_table import BoundTable
from rrise.deployment.export.input_names import IMAGES, NOISY_IMAGES
from rrise.errors import SettingError
from rrise.models.inspection import precision_of

LOGITS = "logits"
LABEL, RADIUS, LOWER_BOUND, ISSUED = "label", "radius", "lower_bound", "issued"
PROBABILITIES = "probabilities"
IDENTITY = "rrise.identity"
OUTPUTS = (LABEL, RADIUS, LOWER_BOUND, ISSUED, PROBABILITIES)
_PREFIX = "rrise."
"""Prefix of the names of our own nodes and numbers."""
_LARGEST_FILE = 1_900_000_000
_LARGEST = float(np.finfo(np.float32).max)


def surrogate_graph(network: nn.Module, sample: torch.Tensor) -> Any:
    """Return the surrogate as an ONNX model from `images` to `logits`, for batches of any size.

    `sample` holds two inputs or more.
    """
    wrapped = _FromSingle(network).eval()
    size = sum(tensor.nbytes for tensor in network.state_dict().values())
    if size > _LARGEST_FILE:
        raise SettingError(
            f"expected a surrogate of at most 2 GB, the limit of an ONNX file; got {size:,} bytes"
        )
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _quiet("torch.onnx"):
            warnings.simplefilter("ignore")
            exported = torch.onnx.export(
                wrapped,
                (sample,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
                input_names=[IMAGES],
                output_names=[LOGITS],
                verbose=False,
            )
    except ImportError:
        raise
    except Exception as error:  # the exporter raises many kinds, all undocumented
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SettingError(f"the surrogate cannot be written as an ONNX graph: {reason}") from error
    assert exported is not None
    return _without_traces(exported.model_proto)


def with_certificates(
    surrogate: Any,
    input_range: InputRange,
    table: BoundTable | None = None,
    identity: str = "",
    *,
    noisy: bool = False,
) -> Any:
    """Return a surrogate's model, extended from its logits to the certificate.

    Without a table, the model ends at the probabilities, as calibration needs. `identity`, in the model's
    metadata, names what it was calibrated for. `noisy` tells that queries have noise.
    """
    model = onnx.ModelProto()
    model.CopyFrom(surrogate)
    part = _Nodes(model.graph)
    wide = part.add("Cast", LOGITS, to=TensorProto.DOUBLE)
    part.add("Cast", part.add("Softmax", wide, axis=-1), to=TensorProto.FLOAT, name=PROBABILITIES)
    classes = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    model.graph.value_info.append(model.graph.output[0])
    del model.graph.output[:]
    outputs: dict[str, tuple[int, list[str | int]]] = {PROBABILITIES: (TensorProto.FLOAT, ["batch", classes])}
    if table is not None:
        part.add("ArgMax", PROBABILITIES, axis=1, keepdims=0, name=LABEL)
        top = part.add("ReduceMax", PROBABILITIES, part.whole(1), keepdims=0)
        axes = range(1, len(model.graph.input[0].type.tensor_type.shape.dim))
        low, high = (-_LARGEST, _LARGEST) if input_range is None else input_range
        valid = part.add(
            "And",
            _all_within(part, IMAGES, np.float32(low), np.float32(high), *axes),
            _all_within(part, wide, np.float64(-_LARGEST), np.float64(_LARGEST), 1),
        )
        _look_up(part, part.add("Where", valid, top, part.number(-1.0)), table)
        outputs = {
            LABEL: (TensorProto.INT64, ["batch"]),
            RADIUS: (TensorProto.FLOAT, ["batch"]),
            LOWER_BOUND: (TensorProto.FLOAT, ["batch"]),
            ISSUED: (TensorProto.BOOL, ["batch"]),
            **outputs,
        }
    model.graph.output.extend(
        helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()
    )
    helper.set_model_props(model, {IDENTITY: identity})
    if noisy:
        _rename_input(model.graph, IMAGES, NOISY_IMAGES)
    onnx.checker.check_model(model)
    return model


def without_certificates(model: Any) -> Any:
    """Return the surrogate's model without the extension of `with_certificates`."""
    surrogate = onnx.ModelProto()
    surrogate.CopyFrom(model)
    graph = surrogate.graph
    (logits,) = (kept for kept in graph.value_info if kept.name == LOGITS)
    for parts in (graph.node, graph.initializer):
        own = [part for part in parts if part.name.startswith(_PREFIX)]
        for part in own:
            parts.remove(part)
    del graph.output[:]
    graph.output.append(logits)
    graph.value_info.remove(logits)
    del surrogate.metadata_props[:]
    _rename_input(graph, NOISY_IMAGES, IMAGES)
    return surrogate


def _rename_input(graph: Any, former: str, new: str) -> None:
    """Rename an input of a graph, if it has one of that name."""
    for given in graph.input:
        given.name = new if given.name == former else given.name
    for node in graph.node:
        node.input[:] = [new if name == former else name for name in node.input]


def opset_of(model: Any) -> int:
    """Return the version of the ONNX operators that a model uses."""
    return int(next(found.version for found in model.opset_import if found.domain in ("", "ai.onnx")))


class _FromSingle(nn.Module):
    """A network that takes float32 inputs, whatever its own number type."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.precision = network, precision_of(network)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.network(images.to(self.precision))
        return logits


class _Nodes:
    """Adds nodes and their numbers to a graph, each with a unique name."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._count = 0

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        output = name or self._name(operator)
        node = helper.make_node(operator, list(inputs), [output], name=f"{_PREFIX}{output}", **attributes)
        self._graph.node.append(node)
        return output

    def array(self, values: np.ndarray[Any, Any]) -> str:
        """Add numbers, and return their name."""
        name = self._name("numbers")
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, value: float) -> str:
        """Add a float32 number."""
        return self.array(np.array(value, dtype=np.float32))

    def whole(self, *values: int) -> str:
        """Add a list of whole numbers."""
        return self.array(np.array(values, dtype=np.int64))

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{_PREFIX}{kind.lower()}_{self._count}"


def _all_within(part: _Nodes, values: str, low: np.floating[Any], high: np.floating[Any], *axes: int) -> str:
    """Add a test, per input, that all of its values are from low to high; NaN fails it."""
    inside = part.add(
        "And",
        part.add("GreaterOrEqual", values, part.array(np.asarray(low))),
        part.add("LessOrEqual", values, part.array(np.asarray(high))),
    )
    counted = part.add("Cast", inside, to=TensorProto.FLOAT)
    return part.add(
        "Greater", part.add("ReduceMin", counted, part.whole(*axes), keepdims=0), part.number(0.5)
    )


def _look_up(part: _Nodes, top: str, table: BoundTable) -> None:
    """Add the look-up of `BoundTable`: the group by the label, then row and column by counting knots."""
    column = part.add("Unsqueeze", top, part.whole(1))
    number, rows, columns = table.knots.shape
    if table.groups is None:
        row = _last_not_above(part, column, part.array(table.knots[0, :, 0][None]))
    else:
        group = part.add("Gather", part.array(np.array(table.groups)), LABEL, axis=0)
        first = part.add("Gather", part.array(table.knots[:, :, 0]), group, axis=0)
        before = part.add("Mul", group, part.array(np.array(rows)))
        row = part.add("Add", before, _last_not_above(part, column, first))
    knots = part.add("Gather", part.array(table.knots.reshape(number * rows, columns)), row, axis=0)
    place = part.add(
        "Add",
        part.add("Mul", row, part.array(np.array(columns))),
        _last_not_above(part, column, knots),
    )
    part.add("Gather", part.array(table.radius.ravel()), place, axis=0, name=RADIUS)
    part.add("Gather", part.array(table.lower_bound.ravel()), place, axis=0, name=LOWER_BOUND)
    part.add("GreaterOrEqual", LOWER_BOUND, part.number(0.5), name=ISSUED)


def _last_not_above(part: _Nodes, column: str, knots: str) -> str:
    """Add the index of the last knot not above each value; 0 if there is none, as for NaN."""
    reached = part.add("Cast", part.add("GreaterOrEqual", column, knots), to=TensorProto.INT64)
    count = part.add("ReduceSum", reached, part.whole(1), keepdims=0)
    return part.add("Max", part.add("Sub", count, part.array(np.array(1))), part.array(np.array(0)))


def _without_traces(model: Any) -> Any:
    """Remove the exporter's notes on the Python code of the model."""
    for item in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    for item in (model, model.graph, *model.graph.initializer):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    return model


@contextlib.contextmanager
def _quiet(name: str) -> Any:
    logger = logging.getLogger(name)
    before = logger.disabled, logger.level
    logger.disabled = True
    logger.setLevel(logging.CRITICAL)  # also for its children
    try:
        yield
    finally:
        logger.disabled = before[0]
        logger.setLevel(before[1])
