"""A classifier as a program: its graph as JSON and its weights, without Python code or pickle.

    {"format": 1, "input": "x", "weights": {"w": "head.weight"}, "output": "linear",
     "calls": [{"name": "linear", "target": "aten.linear.default",
                "args": [{"node": "x"}, {"node": "w"}], "kwargs": {}}]}

`"precision": "float32"` is there too where the file holds narrower weights than the calls compute with.

A program is interpreted call by call; no source code is generated. It can call only ATen operators that
compute tensors from their arguments, and a few functions on integers. It can pass only keywords that the
operator has. So a folder cannot run code. A hostile one is still not harmless: arguments of an operator can
crash the process.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from rrise.errors import FolderError, MismatchError
from rrise.files import Json

FORMAT = 1
PRECISION = "precision"

INTEGER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "getitem")
}
TORCH_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
_FORBIDDEN = {"save", "from_file"}
_RESULTS = {"Tensor", "List[Tensor]", "int", "SymInt"}


@dataclass(frozen=True, eq=False)
class Program:
    """The graph of a module as JSON, and the tensors it refers to by name."""

    graph: Json
    weights: dict[str, torch.Tensor]

    def stored_as(self, dtype: torch.dtype) -> "Program":
        """Return this float32 program with narrower weights; refuse a type in which one would change.

        Whole numbers, such as the steps that batch normalisation has counted, stay as they are.
        """
        narrow = {name: weight for name, weight in self.weights.items() if weight.is_floating_point()}
        weights = {**self.weights, **{name: weight.to(dtype) for name, weight in narrow.items()}}
        for name, weight in narrow.items():
            if weight.dtype != torch.float32 or not torch.equal(weights[name].float(), weight):
                raise MismatchError(
                    f"expected float32 weights that {dtype} holds exactly, got others in {name}"
                )
        return Program({**self.graph, PRECISION: "float32"}, weights)

    def module(self) -> nn.Module:
        """Build the module described by the program; anything unknown in it is a `FolderError`."""
        if self.graph.get("format") != FORMAT:
            raise FolderError(f"expected a program of format {FORMAT}, got {self.graph.get('format')!r}")
        try:
            return _Interpreter(self.graph, self.weights).eval()
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            raise FolderError(f"the program of the surrogate is damaged or edited ({error})") from None


def is_allowed(target: Any) -> bool:
    """Tell whether a program may call this: only public ATen operators that return tensors or sizes."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    name = target._opname
    results = [str(result.type) for result in target._schema.returns]
    return name not in _FORBIDDEN and not name.startswith("_") and bool(results) and set(results) <= _RESULTS


@dataclass(frozen=True)
class _Node:
    """A reference to the result of an earlier call."""

    name: str


class _Device:
    """Stands for the device that the program runs on."""


_DEVICE = _Device()


@dataclass(frozen=True)
class _Call:
    name: str
    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    finished: tuple[str, ...]
    """Results that no later call needs."""

    @cached_property
    def _open(self) -> tuple[list[int], list[str]]:
        """The arguments, by position and by name, that every run fills in."""
        by_position = [index for index, value in enumerate(self.args) if _is_open(value)]
        return by_position, [name for name, value in self.kwargs.items() if _is_open(value)]

    def __call__(self, results: dict[str, Any], device: torch.device) -> Any:
        """Call the function on earlier results."""
        args, kwargs = self.args.copy(), self.kwargs.copy()
        by_position, by_name = self._open
        for index in by_position:
            args[index] = _filled_in(args[index], results, device)
        for name in by_name:
            kwargs[name] = _filled_in(kwargs[name], results, device)
        return self.function(*args, **kwargs)


class _Interpreter(nn.Module):
    """Runs the calls of a program in order."""

    def __init__(self, graph: Json, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self._input, self._output = str(graph["input"]), str(graph["output"])
        self._weights: dict[str, str] = {}
        if self._input in graph["weights"]:
            raise ValueError(f"{self._input} is both the input and a weight")
        if (precision := graph.get(PRECISION)) not in (None, "float32"):
            raise ValueError(f"unknown precision {precision!r}")
        for index, (name, weight) in enumerate(graph["weights"].items()):
            self._weights[name] = f"weight_{index}"
            found = weights[weight]
            widened = precision is not None and found.is_floating_point()
            self.register_buffer(f"weight_{index}", found.float() if widened else found)
        self._calls = _read_calls(graph["calls"], {self._input, *self._weights}, self._output)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        results: dict[str, Any] = {name: self._buffers[buffer] for name, buffer in self._weights.items()}
        results[self._input], device = images, images.device
        for call in self._calls:
            results[call.name] = call(results, device)
            for name in call.finished:
                del results[name]
        logits: torch.Tensor = results[self._output]
        return logits


def _read_calls(calls: list[Json], known: set[str], output: str) -> list[_Call]:
    read: list[tuple[str, Callable[..., Any], list[Any], dict[str, Any]]] = []
    last_use: dict[str, int] = {}
    results: set[str] = set()
    for position, call in enumerate(calls):
        uses: list[str] = []
        args = [_read(argument, uses) for argument in call["args"]]
        kwargs = {str(name): _read(argument, uses) for name, argument in call["kwargs"].items()}
        if unknown := [name for name in uses if name not in known | results]:
            raise ValueError(f"{call['name']} uses {unknown[0]}, which no earlier call defines")
        name = str(call["name"])
        if name in known | results:
            raise ValueError(f"{name} is defined twice")
        read.append((name, _function(call["target"], kwargs), args, kwargs))
        results.add(name)
        last_use.update(dict.fromkeys(uses, position))
    if output not in results:
        raise ValueError(f"no call defines the output {output}")
    ends: dict[int, list[str]] = {}
    for name, position in last_use.items():
        if name in results and name != output:
            ends.setdefault(position, []).append(name)
    return [_Call(*parts, tuple(ends.get(position, ()))) for position, parts in enumerate(read)]


def _function(target: str, kwargs: dict[str, Any]) -> Callable[..., Any]:
    namespace, name, *overload = target.split(".")
    if namespace == "operator" and not kwargs:
        return INTEGER_FUNCTIONS[name]
    if namespace != "aten" or len(overload) != 1:
        raise ValueError(f"{target} is not an ATen operator")
    found = getattr(getattr(torch.ops.aten, name), overload[0])
    if not is_allowed(found):
        raise ValueError(f"{target} is not an operator that a program may call")
    if unknown := set(kwargs) - {argument.name for argument in found._schema.arguments}:
        raise ValueError(f"{target} has no argument {sorted(unknown)[0]!r}")
    function: Callable[..., Any] = found
    return function


def _read(value: Any, uses: list[str]) -> Any:
    if isinstance(value, list):
        return [_read(item, uses) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "node":
            uses.append(str(content))
            return _Node(str(content))
        case "float":
            return float(content)
        case "device":
            return _DEVICE
        case "torch":
            constant = getattr(torch, content)
            if isinstance(constant, TORCH_CONSTANTS):
                return constant
    raise ValueError(f"unknown value {value!r}")


def _is_open(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_open, value))
    return isinstance(value, _Node) or value is _DEVICE


def _filled_in(value: Any, results: dict[str, Any], device: torch.device) -> Any:
    if isinstance(value, _Node):
        return results[value.name]
    if isinstance(value, list):
        return [_filled_in(item, results, device) for item in value]
    return device if value is _DEVICE else value
