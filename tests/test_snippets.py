"""Every snippet of every page runs: Python here or as a doctest. Commands that are not cheap are parsed."""

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer.main
from typer.testing import CliRunner

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.cli.app import app
from tests.closed_forms import HalfSpace
from tests.test_docs import DOCUMENTS, ROOT, script

snippets = script(ROOT / "docs" / "snippets.py")
NAMES = ("images", "production", "signals", "tables")
TUTORIALS = [ROOT / "docs" / "tutorials" / f"{name}.md" for name in NAMES]
PICTURES = ROOT / "docs" / "images" / "tutorials"
PAGES = [page for page in DOCUMENTS if page not in TUTORIALS]


def plain(page: Path) -> list[Any]:
    """Return the blocks of Python that are no doctests."""
    return [
        one
        for one in snippets.snippets_of(page.read_text())
        if one.language == "python" and ">>>" not in one.code
    ]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.stem == "tables" else pytest.mark.slow) for page in TUTORIALS],
    ids=lambda page: page.stem,
)
def test_a_tutorial_runs_and_draws_its_pictures(page: Path, tmp_path: Path) -> None:
    if page.stem == "images":
        pytest.importorskip("timm")
    if page.stem == "production":
        pytest.importorskip("onnxruntime")
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "snippets.py", page, "--pictures", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    named = re.findall(r"images/tutorials/([\w-]+\.png)", page.read_text())
    assert sorted(named) == sorted(picture.name for picture in tmp_path.glob("*.png"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_pictures_of_a_tutorial_are_small(page: Path) -> None:
    named = re.findall(r"images/tutorials/([\w-]+\.png)", page.read_text())
    assert named
    for name in named:
        assert (PICTURES / name).stat().st_size < 100_000


def test_no_picture_is_left_over() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    for picture in (ROOT / "docs" / "images").glob("*/*.png"):
        assert picture.name in pages


@pytest.fixture
def prepared(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, Any]]:
    """Return the names that the snippets of a page take for granted, in a folder with what they read."""
    monkeypatch.chdir(tmp_path)

    def small() -> dict[str, Any]:
        uniform: np.ndarray = request.getfixturevalue("uniform")
        return {
            "rrise": rrise,
            "base": request.getfixturevalue("half_space"),
            "certifier": request.getfixturevalue("certifier"),
            "images": uniform[300:500],
            "training_images": uniform[:300],
        }

    def demo(folder: str) -> None:
        place = tmp_path / folder
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(request.getfixturevalue("quick_demo"))

    def attacks() -> dict[str, Any]:
        return {**small(), "images": request.getfixturevalue("uniform")[500:508]}

    def export() -> dict[str, Any]:
        pytest.importorskip("onnxruntime")
        names = small()
        votes = rrise.collect_votes(
            names["base"], names["images"], sigma=0.25, n=400, seed=1, split="calibration"
        )
        rrise.export_certifier(names["certifier"], names["images"], votes, "fp32")
        shutil.copy("fp32/certifier.onnx", "certifier.onnx")
        return {**names, "votes": votes}

    def monitoring() -> dict[str, Any]:
        demo("runs/demo")
        return {"inputs": torch.rand(20, 1, 8, 8)}

    def serving() -> dict[str, Any]:
        demo("demo")
        uvicorn = pytest.importorskip("uvicorn")
        monkeypatch.setattr(uvicorn, "run", lambda _: None)
        return {}

    def training() -> dict[str, Any]:
        names = small()
        images = names["images"]
        return {**names, "votes": rrise.collect_votes(names["base"], images, sigma=0.25, n=20, split="train")}

    makers = {
        "attacks": attacks,
        "export": export,
        "monitoring": monitoring,
        "recipes": dict,
        "serving": serving,
        "start": dict,
        "training": training,
    }
    return lambda page: makers[page]()


PREPARED = ["attacks", "export", "monitoring", "serving", "start", "training"]


@pytest.mark.parametrize("page", [*PREPARED, pytest.param("recipes", marks=pytest.mark.slow)])
def test_the_python_of_a_page_runs(page: str, prepared: Callable[[str], dict[str, Any]]) -> None:
    document = ROOT / "docs" / f"{page}.md"
    names = prepared(page)
    blocks = plain(document)
    assert blocks
    for block in blocks:
        snippets.check_output(block, snippets.run_python(block, document, names), document)


def test_the_snippet_for_a_cluster_runs(
    half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a cluster that computes here."""
    pytest.importorskip("ray")
    from rrise.votes import ray_backend as cluster

    @contextlib.contextmanager
    def here(store: rrise.VoteStore, found: cluster.Cluster) -> Iterator[None]:
        assert (found.address, found.gpus_per_worker) == ("head:6379", 1)
        yield None

    monkeypatch.setattr(cluster, "ray_backend", here)
    (block,) = plain(ROOT / "docs" / "ray.md")
    code = block.code.replace("/shared", str(tmp_path)).replace('"cuda"', '"cpu"')
    plan = rrise.VotePlan(0.25, n=10, seed=1, split="train")
    names: dict[str, Any] = {"rrise": rrise, "base": half_space, "images": uniform[:20], "plan": plan}
    exec(code, names)
    assert names["votes"].sum() == 200


def test_the_snippet_for_a_bucket_runs(
    certifier: SurrogateCertifier, uniform: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a folder as the bucket."""
    monkeypatch.chdir(tmp_path)
    certifier.save("certifier")
    np.save("inputs.npy", uniform[500:])
    (block,) = plain(ROOT / "docs" / "at-scale.md")
    names: dict[str, Any] = {"rrise": rrise}
    exec(block.code.replace("s3://bucket/images", "inputs.npy").replace("s3://bucket", str(tmp_path)), names)
    assert names["done"].issued + names["done"].abstained == 100


def test_no_snippet_is_forgotten() -> None:
    with_python = [page.stem for page in PAGES if plain(page)]
    assert sorted(with_python) == sorted([*PREPARED, "at-scale", "recipes", "ray"])


def commands_in(page: Path) -> list[list[str]]:
    """Return the `rrise` commands of a page as lists of arguments."""
    blocks = [one.code for one in snippets.snippets_of(page.read_text()) if one.language in {"sh", "bash"}]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = (re.search(r"(?:^|[/$ ]\s*|-m )rrise (?P<arguments>[a-z-].*)", line) for line in lines)
    return [shlex.split(found["arguments"], comments=True) for found in commands if found]


COMMANDS = [
    pytest.param(arguments, id=f"{page.stem}: {' '.join(arguments)[:60]}")
    for page in [*PAGES, *TUTORIALS]
    for arguments in commands_in(page)
]


def check(arguments: list[str]) -> None:
    """Parse a command line as `rrise` does, without running it."""
    group: Any = typer.main.get_command(app)
    name, *rest = until_shell(arguments)
    assert name in group.commands, f"there is no command {name}"
    command = group.commands[name]
    context = type(command).context_class(command, info_name=name)
    values, left, _ = command.make_parser(context).parse_args(list(rest))
    assert not left, f"{left} is too much"
    needed = [one for one in command.params if one.required and values.get(one.name) is None]
    assert not needed, f"{[one.name for one in needed]} is missing"


def until_shell(arguments: list[str]) -> list[str]:
    """Return the arguments before a redirection or an ampersand."""
    ends = [number for number, one in enumerate(arguments) if re.match(r"\d?>|&|\|", one)]
    return arguments[: min(ends, default=len(arguments))]


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_of_the_documents_exists_with_its_options(arguments: list[str]) -> None:
    check(arguments)


@pytest.mark.parametrize(
    "arguments",
    [["sing"], ["serve"], ["serve", "certifier", "--louder"], ["report", "run", "another"]],
    ids=" ".join,
)
def test_a_wrong_command_is_noticed(arguments: list[str]) -> None:
    with pytest.raises(Exception, match=r"no command|missing|[Nn]o such option|too much"):
        check(arguments)


CHEAP = ["recipes", "certify cifar-10 results/ready/cifar-10/samples"]


@pytest.mark.parametrize("command", CHEAP)
def test_a_cheap_command_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command.split() in [one.values[0] for one in COMMANDS]
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0
    assert len(done.output.splitlines()) > 5


def test_an_output_that_differs_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n```python\nprint(1 + 1)\n```\n```text\n2\n```\n\n```python\nprint(3)\n```\n```text\n4\n```\n"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AssertionError, match=r"line 10: the page shows\n4\n\nbut the snippet printed\n3"):
        snippets.run_page(page, folder)


def test_a_page_has_files_shell_and_a_background(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# made_here.py\nTHREE = 3\n```\n"
        "```sh\nsleep 60 & echo $! > pid; echo done\n```\n```text\ndone\n```\n"
        "```python\nfrom made_here import THREE\nprint(THREE)\n```\n```text\n3\n```\n"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    snippets.run_page(page, folder)
    state = Path(f"/proc/{(folder / 'pid').read_text().strip()}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] in "ZX":
            return
        time.sleep(0.1)
    pytest.fail("the background of the page goes on")


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("97% of 1,000", True),
        ("95% of 1,040", True),
        ("70% of 1,000", False),
        ("97% in 1,000", False),
        ("97%", False),
    ],
)
def test_numbers_of_an_output_are_compared_roughly(printed: str, same: bool) -> None:
    assert snippets.agrees("97% of 1,000\n", printed) is same
    assert snippets.agrees("97% of ...\n", printed) is ("97% of" in printed)


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    block = snippets.snippets_of("# A\n\n```python\n1 / 0\n```\n")[0]
    with pytest.raises(ZeroDivisionError) as error:
        snippets.run_python(block, tmp_path / "page.md", {})
    assert error.traceback[-1].lineno + 1 == 4
