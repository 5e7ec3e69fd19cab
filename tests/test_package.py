"""The house itself: what is public, what loads when, and which room may call which."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rrise

SOURCE = Path(rrise.__file__).parent
ROOMS = [
    "statistics",
    "data",
    "models",
    "votes",
    "training",
    "certifiers",
    "evaluation",
    "audit",
    "runs",
    "deployment",
    "cli",
]
"""In the order in which rooms may depend on each other: a room imports from itself and from earlier ones."""
SUB_ROOMS = {
    "evaluation": ["measure", "tables", "figures", "report"],
    "deployment": ["priority", "export", "loading", "bulk", "monitor", "service"],
}
"""The same inside a room; single files at its root have their place too."""
BESIDE = {("evaluation", "query"): {"measure", "query"}}
"""Sub-rooms beside that order, and what they may import from."""


def test_importing_rrise_does_not_load_torch() -> None:
    code = "import sys, rrise; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_line_offers_its_options_without_loading_torch() -> None:
    code = "import sys, rrise.cli.app; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", rrise.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rrise, name) is not None
    assert name in dir(rrise)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'certify_everything'"):
        _ = rrise.certify_everything


@pytest.mark.parametrize("name", sorted(set(rrise.__all__) - {"__version__"}))
def test_the_docstring_of_a_public_name_has_the_sections_of_google(name: str) -> None:
    found = getattr(rrise, name)
    text = inspect.cleandoc(found.__doc__)
    sections = set(re.findall(r"^(Args|Attributes|Returns|Yields|Raises|Examples?):$", text, re.MULTILINE))
    assert sections & {"Example", "Examples"}, f"{name} has no example"
    if inspect.isclass(found):
        parameters = set() if issubclass(found, Exception) else _fields_or_parameters(found)
        assert not parameters or sections & {"Args", "Attributes"}, f"{name} does not describe its parameters"
    else:
        signature = inspect.signature(found)
        parameters = set(signature.parameters)
        assert not parameters or "Args" in sections, f"{name} does not describe its parameters"
        returned = signature.return_annotation not in (None, "None", inspect.Signature.empty)
        assert not returned or sections & {"Returns", "Yields"}, f"{name} does not say what it returns"
    described = set(re.findall(r"^    \**(\w+)(?: \(.*\))?: ", text, re.MULTILINE))
    assert parameters <= described, f"{name} does not describe {sorted(parameters - described)}"


def _fields_or_parameters(kind: type) -> set[str]:
    """Return what a class is made with, or the properties of a protocol, which is not made."""
    if getattr(kind, "_is_protocol", False):
        return {name for name, value in vars(kind).items() if isinstance(value, property)}
    inherited = {name for parent in kind.__bases__ for name in getattr(parent, "__dataclass_fields__", {})}
    return set(inspect.signature(kind).parameters) - inherited


def imported_from(package: str, path: Path) -> set[str]:
    """Return what a file imports directly below a package: `figures` for `rrise.evaluation.figures.bars`."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    inside = (module.removeprefix(f"{package}.") for module in modules if module.startswith(f"{package}."))
    return {module.split(".")[0] for module in inside}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_depend_downwards_only(room: str) -> None:
    above = set(ROOMS[ROOMS.index(room) + 1 :])
    for path in (SOURCE / room).rglob("*.py"):
        assert not imported_from("rrise", path) & above, path


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_sub_rooms_depend_downwards_only(room: str) -> None:
    order = SUB_ROOMS[room]
    allowed = {name: set(order[: place + 1]) for place, name in enumerate(order)}
    allowed |= {name: others for (owner, name), others in BESIDE.items() if owner == room}
    for path in (SOURCE / room).rglob("*.py"):
        own = path.relative_to(SOURCE / room).parts[0].removesuffix(".py")
        others = imported_from(f"rrise.{room}", path)
        assert own == "__init__" or own in allowed, f"give {own} its place in SUB_ROOMS"
        assert others <= allowed.get(own, set()), path


def test_statistics_need_no_torch() -> None:
    code = "import sys, rrise.statistics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_is_pickled() -> None:
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", path
        assert not imported & {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}, path
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not calls & {"torch.load", "torch.save", "torch.export.load", "torch.export.save"}, path
        assert not calls & {"exec", "eval", "compile"}, path


DOCUMENTED = [
    "rrise.runs.pipeline.run_recipe",
    "rrise.data.catalogue.load_dataset",
    "rrise.models.folder.load_model",
]


@pytest.mark.parametrize("name", [*(f"rrise.{name}" for name in rrise.__all__), *DOCUMENTED])
def test_every_path_may_be_a_text(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    inside = [getattr(found, part) for part in vars(found)] if inspect.isclass(found) else []
    for function in filter(inspect.isroutine, [found, *inside]):
        for parameter in _parameters(function):
            words = str(parameter.annotation)
            assert "Path" not in words or "str" in words, f"{name} takes no text as {parameter}"


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        return []
