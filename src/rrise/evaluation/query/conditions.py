"""Conditions on certificates, as a user writes them: `issued and radius > 0.5`.

The text is read by Python's own parser and turned, piece by piece, into a `pyarrow` expression; nothing in it
is ever run. It may hold names of columns, numbers, texts, `True` and `False`, comparisons (also chained, and
`in` a list), `and`, `or`, `not`, parentheses, and `+ - * /`.
"""

import ast
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rrise.errors import SettingError, did_you_mean

_KINDS = {"number": "a number", "text": "a text", "truth": "true or false"}
_ALLOWED = "names of columns, numbers, texts, comparisons, in, and, or, not, + - * / and parentheses"

_LONGEST = 10_000
"""Characters of a condition; expressions of many more parts are too deep for `pyarrow`."""

_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: pc.add,
    ast.Sub: pc.subtract,
    ast.Mult: pc.multiply,
    ast.Div: pc.divide,
}


@dataclass(frozen=True)
class _Part:
    expression: Any
    kind: str
    text: str


def parse_where(text: str, schema: pa.Schema) -> Any:
    """Return the `pyarrow` expression that is true where the condition holds.

    Anything but a condition on the columns of `schema` is a `SettingError`. Arithmetic is in double
    precision.
    """
    if len(text) > _LONGEST:
        raise SettingError(f"expected a condition of at most {_LONGEST} characters, got {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip(), mode="eval")
        return _Reader(schema).condition(tree.body).expression
    except SyntaxError as error:
        raise SettingError(
            f"cannot read the condition {text!r} ({error.msg}): write it such as 'issued and radius > 0.5'"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError(
            f"cannot read the condition that starts with {text[:40]!r}: it is too deep or has characters "
            f"that do not belong there; write it such as 'issued and radius > 0.5'"
        ) from None


class _Reader:
    """Turns the pieces of a condition into expressions, each with its kind: number, text or truth."""

    def __init__(self, schema: pa.Schema) -> None:
        self._kinds = {field.name: _kind(field.type) for field in schema}

    def condition(self, node: ast.expr) -> _Part:
        part = self._part(node)
        if part.kind != "truth":
            raise SettingError(
                f"expected a condition, got {part.text}, which is {_KINDS[part.kind]}: compare it, "
                f"such as {part.text} {'> 0.5' if part.kind == 'number' else '== …'}"
            )
        return part

    def _part(self, node: ast.expr) -> _Part:
        readers: dict[type, Callable[[Any], _Part]] = {
            ast.Name: self._column,
            ast.Constant: self._constant,
            ast.BoolOp: self._joined,
            ast.UnaryOp: self._unary,
            ast.Compare: self._compared,
            ast.BinOp: self._calculated,
        }
        if type(node) not in readers:
            raise _not_allowed(node)
        return readers[type(node)](node)

    def _column(self, node: ast.Name) -> _Part:
        if node.id not in self._kinds:
            near = did_you_mean(node.id, self._kinds) or f"; there are {', '.join(self._kinds)}"
            raise SettingError(f"certificates have no column {node.id}{near}")
        kind = self._kinds[node.id]
        field = pc.field(node.id)
        return _Part(field.cast(pa.string()) if kind == "text" else field, kind, node.id)

    def _constant(self, node: ast.Constant) -> _Part:
        value = node.value
        if not isinstance(value, bool | int | float | str) or (isinstance(value, int) and abs(value) > 2**53):
            raise _not_allowed(node)
        kind = "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
        return _Part(pc.scalar(value), kind, repr(value))

    def _joined(self, node: ast.BoolOp) -> _Part:
        conditions = [self.condition(value).expression for value in node.values]
        return _Part(_combined(conditions, every=isinstance(node.op, ast.And)), "truth", ast.unparse(node))

    def _unary(self, node: ast.UnaryOp) -> _Part:
        text = ast.unparse(node)
        if isinstance(node.op, ast.Not):
            return _Part(~self.condition(node.operand).expression, "truth", text)
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise _not_allowed(node)
        value = self._number(node.operand)
        return _Part(pc.negate(value) if isinstance(node.op, ast.USub) else value, "number", text)

    def _compared(self, node: ast.Compare) -> _Part:
        lefts = [node.left, *node.comparators]
        pairs = [
            self._pair(left, operator, right)
            for left, operator, right in zip(lefts, node.ops, node.comparators, strict=False)
        ]
        return _Part(_combined(pairs, every=True), "truth", ast.unparse(node))

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Any:
        part = self._part(left)
        if isinstance(operator, ast.In | ast.NotIn):
            found = self._within(part, right)
            return ~found if isinstance(operator, ast.NotIn) else found
        other = self._part(right)
        _check_same(part, other)
        if type(operator) not in _COMPARISONS:
            raise SettingError(f"expected ==, !=, <, <=, >, >= or in behind {part.text}, got is: write ==")
        return _COMPARISONS[type(operator)](part.expression, other.expression)

    def _within(self, part: _Part, values: ast.expr) -> Any:
        if not isinstance(values, ast.Tuple | ast.List | ast.Set) or not values.elts:
            raise SettingError(
                f"expected a list of values behind in, got {ast.unparse(values)}: "
                f"write it such as {part.text} in (1, 2)"
            )
        for value in values.elts:
            if not isinstance(value, ast.Constant):
                raise SettingError(f"expected plain values behind in, got {ast.unparse(value)}")
            _check_same(part, self._constant(value))
        kind = {"number": pa.float64(), "text": pa.string(), "truth": pa.bool_()}[part.kind]
        listed = pa.array([value.value for value in values.elts if isinstance(value, ast.Constant)], kind)
        return part.expression.cast(kind).isin(listed)

    def _calculated(self, node: ast.BinOp) -> _Part:
        if type(node.op) not in _ARITHMETIC:
            raise _not_allowed(node)
        left, right = self._number(node.left), self._number(node.right)
        return _Part(_ARITHMETIC[type(node.op)](left, right), "number", ast.unparse(node))

    def _number(self, node: ast.expr) -> Any:
        part = self._part(node)
        if part.kind != "number":
            raise SettingError(
                f"expected a number to calculate with, got {part.text}: it is {_KINDS[part.kind]}"
            )
        return part.expression.cast(pa.float64())


def _combined(conditions: list[Any], *, every: bool) -> Any:
    """Join conditions by and, or else by or, in halves: a long list makes no deep expression."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    left, right = _combined(conditions[:half], every=every), _combined(conditions[half:], every=every)
    return left & right if every else left | right


def _kind(column: pa.DataType) -> str:
    if pa.types.is_boolean(column):
        return "truth"
    return "number" if pa.types.is_integer(column) or pa.types.is_floating(column) else "text"


def _check_same(left: _Part, right: _Part) -> None:
    if left.kind == right.kind:
        return
    text, number = (left, right) if left.kind == "text" else (right, left)
    hint = ""
    if (text.kind, number.kind) == ("text", "number"):
        quoted = text.text.startswith(("'", '"'))
        hint = f": write {number.text} == 3" if quoted else f": write {text.text} == '{number.text}'"
    raise SettingError(
        f"cannot compare {left.text}, which is {_KINDS[left.kind]}, with {right.text}, which is "
        f"{_KINDS[right.kind]}{hint}"
    )


def _not_allowed(node: ast.expr) -> SettingError:
    words: dict[Any, str] = {ast.BitAnd: "; write and", ast.BitOr: "; write or", ast.Invert: "; write not"}
    hint = words.get(type(getattr(node, "op", None)), "")
    return SettingError(f"a condition is made of {_ALLOWED}; got {ast.unparse(node)}{hint}")
