"""A classifier as a program: its graph in JSON, its weights beside it, no Python code and no pickle.

`torch.export` turns a module into a list of calls of ATen operators. This file writes that list as
plain JSON and builds a module from it again, so that a certifier folder works on a machine that does
not have the class of the user's model. Only operators of the `aten` namespace that leave files alone,
and a few functions on integers, are ever looked up by name: a folder cannot make its reader run
anything else.
"""

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from rrise.errors import FolderError
from rrise.files import Json

FORMAT = 1

_INTEGER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "getitem")
}
_FILE_OPERATORS = {"save", "from_file"}
_TORCH_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)


class NotAProgramError(Exception):
    """The module cannot be written as a program; the message says why."""


@dataclass(frozen=True, eq=False)
class Program:
    """The graph of a module as JSON, and the tensors it refers to by name."""

    graph: Json
    weights: dict[str, torch.Tensor]

    @classmethod
    def of(cls, module: nn.Module, sample: torch.Tensor) -> "Program":
        """Write a module in evaluation mode, for batches of any size; `sample` holds two inputs or more."""
        batch = torch.export.Dim("batch", min=1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = torch.export.export(module, (sample,), dynamic_shapes=({0: batch},))
        except Exception as error:  # the exporter raises many kinds, none of them documented
            raise NotAProgramError(str(error).strip().splitlines()[0]) from error
        sources, weights = _sources_and_weights(exported)
        outputs = exported.graph_signature.output_specs
        if len(outputs) != 1 or outputs[0].kind != OutputKind.USER_OUTPUT:
            raise NotAProgramError("it changes its own buffers, or returns more than the logits")
        nodes = [_write_node(node, sources) for node in exported.graph.nodes]
        return cls({"format": FORMAT, "nodes": nodes}, weights)

    def module(self) -> nn.Module:
        """Build the module that the program describes; anything unknown in it is a `FolderError`."""
        if self.graph.get("format") != FORMAT:
            raise FolderError(f"expected a program of format {FORMAT}, got {self.graph.get('format')!r}")
        root = nn.Module()
        attributes = {name: f"weight_{index}" for index, name in enumerate(self.weights)}
        for name, tensor in self.weights.items():
            root.register_buffer(attributes[name], tensor)
        graph = fx.Graph()
        built: dict[str, fx.Node] = {}
        try:
            for node in self.graph["nodes"]:
                built[node["name"]] = _read_node(graph, node, attributes, built)
            graph.lint()
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise FolderError(f"the program of the surrogate is damaged or edited ({error})") from None
        return fx.GraphModule(root, graph).eval()


def _sources_and_weights(exported: Any) -> tuple[dict[str, str | None], dict[str, torch.Tensor]]:
    """Return, for each placeholder, the name of the weight it stands for (None: the input), and weights."""
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


def _write_node(node: fx.Node, sources: dict[str, str | None]) -> Json:
    if node.op == "placeholder":
        return {
            "name": node.name,
            "op": "weight" if sources[node.name] else "input",
            "target": sources[node.name],
        }
    if node.op == "output":
        return {"name": node.name, "op": "output", "args": _write(node.args[0])}
    if node.op != "call_function":
        raise NotAProgramError(f"its graph has a {node.op} of {node.target}")
    return {
        "name": node.name,
        "op": "call",
        "target": _write_target(node.target),
        "args": [_write(argument) for argument in node.args],
        "kwargs": {key: _write(argument) for key, argument in node.kwargs.items()},
    }


def _write_target(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
        return f"aten.{target._opname}.{target._overloadname}"
    for name, function in _INTEGER_FUNCTIONS.items():
        if target is function:
            return f"operator.{name}"
    raise NotAProgramError(f"it calls {target}, which is not an ATen operator")


def _write(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return {"float": str(value)}
        return value
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_write(item) for item in value]
    if isinstance(value, _TORCH_CONSTANTS):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    raise NotAProgramError(f"its graph holds a {type(value).__name__}")


def _read_node(graph: fx.Graph, node: Json, attributes: dict[str, str], built: dict[str, fx.Node]) -> fx.Node:
    match node["op"]:
        case "input":
            return graph.placeholder("images")
        case "weight":
            return graph.get_attr(attributes[node["target"]])
        case "output":
            output: fx.Node = graph.output(_read(node["args"], built)[0])
            return output
        case "call":
            arguments = tuple(_read(argument, built) for argument in node["args"])
            keywords = {str(key): _read(argument, built) for key, argument in node["kwargs"].items()}
            return graph.call_function(_read_target(node["target"]), arguments, keywords)
    raise ValueError(f"unknown node {node['op']!r}")


def _read_target(target: str) -> Callable[..., Any]:
    namespace, name, *overload = target.split(".")
    if namespace == "operator":
        return _INTEGER_FUNCTIONS[name]
    if namespace != "aten" or len(overload) != 1:
        raise ValueError(f"{target} is not an ATen operator")
    found = getattr(getattr(torch.ops.aten, name), overload[0])
    if not isinstance(found, torch._ops.OpOverload) or name in _FILE_OPERATORS:
        raise TypeError(f"{target} is not an ATen operator")
    return found


def _read(value: Any, built: dict[str, fx.Node]) -> Any:
    if isinstance(value, list):
        return [_read(item, built) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "node":
            return built[content]
        case "float":
            return float(content)
        case "device":
            return torch.device("cpu")
        case "torch":
            constant = getattr(torch, content)
            if isinstance(constant, _TORCH_CONSTANTS):
                return constant
    raise ValueError(f"unknown value {value!r}")
