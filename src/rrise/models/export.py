"""Write a module as a program, with `torch.export`."""

import contextlib
import io
import math
import warnings
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from rrise.files import Json
from rrise.models.program import FORMAT, INTEGER_FUNCTIONS, TORCH_CONSTANTS, Program, is_allowed


class NotAProgramError(Exception):
    """The module cannot be written as a program; the message says why."""


def write_program(module: nn.Module, sample: torch.Tensor) -> Program:
    """Write a module in evaluation mode, for batches of any size; `sample` holds at least two inputs."""
    exported = _exported(module, sample)
    sources, weights = _sources_and_weights(exported)
    outputs = exported.graph_signature.output_specs
    if len(outputs) != 1 or outputs[0].kind != OutputKind.USER_OUTPUT:
        raise NotAProgramError("it changes its own buffers, or returns more than the logits")
    calls = [node for node in exported.graph.nodes if node.op not in ("placeholder", "output")]
    graph = {
        "format": FORMAT,
        "input": next(name for name, weight in sources.items() if weight is None),
        "weights": {name: weight for name, weight in sources.items() if weight is not None},
        "calls": [_write_call(node) for node in calls if not _only_checks(node)],
        "output": outputs[0].arg.name,
    }
    return Program(graph, weights)


def _exported(module: nn.Module, sample: torch.Tensor) -> Any:
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return torch.export.export(module, (sample,), dynamic_shapes=({0: batch},))
    except Exception as error:  # the exporter raises many kinds, none of them documented
        raise NotAProgramError((str(error).strip() or type(error).__name__).splitlines()[0]) from error


def _sources_and_weights(exported: Any) -> tuple[dict[str, str | None], dict[str, torch.Tensor]]:
    """Return the weight name of each placeholder (None: the input), and the weights by name."""
    sources: dict[str, str | None] = {}
    weights: dict[str, torch.Tensor] = {}
    for spec in exported.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            sources[spec.arg.name] = None
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            name = str(spec.target)
            known = exported.state_dict if name in exported.state_dict else exported.constants
            sources[spec.arg.name], weights[name] = name, known[name].detach()
        else:
            raise NotAProgramError(f"it has an input of kind {spec.kind.name}")
    return sources, weights


def _only_checks(node: fx.Node) -> bool:
    """Tell whether a call returns nothing and only checks sizes or types."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and not target._schema.returns and not node.users


def _write_call(node: fx.Node) -> Json:
    if node.op != "call_function":
        raise NotAProgramError(f"its graph has a {node.op} of {node.target}")
    return {
        "name": node.name,
        "target": _write_target(node.target),
        "args": [_write(argument) for argument in node.args],
        "kwargs": {key: _write(argument) for key, argument in node.kwargs.items()},
    }


def _write_target(target: Any) -> str:
    if is_allowed(target):
        return f"aten.{target._opname}.{target._overloadname}"
    for name, function in INTEGER_FUNCTIONS.items():
        if target is function:
            return f"operator.{name}"
    raise NotAProgramError(f"it calls {target}, which a program may not")


def _write(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_write(item) for item in value]
    if isinstance(value, TORCH_CONSTANTS):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    raise NotAProgramError(f"its graph holds a {type(value).__name__}")
