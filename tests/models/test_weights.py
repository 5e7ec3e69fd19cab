"""Files of weights, and files that share weights with another one."""

import shutil
from pathlib import Path

import pytest
import torch

from rrise.errors import FolderError
from rrise.models.weights import load_tensors, save_tensors, shared_file

BASE = {"a": torch.rand(200, 300), "b": torch.rand(5), "steps": torch.tensor(7)}
OWN = {"a": BASE["a"], "b": torch.rand(5), "steps": torch.tensor(9), "c": torch.rand(2)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tensors(tmp_path / "base", BASE)
    save_tensors(tmp_path / "own", OWN, shared=tmp_path / "base")
    return tmp_path


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_shared_weights_are_stored_once_and_read_as_one(folder: Path) -> None:
    assert same(load_tensors(folder / "own"), OWN)
    assert (folder / "own").stat().st_size < 2_000 < (folder / "base").stat().st_size


def test_the_shared_file_is_found_beside_the_weights_even_through_a_link(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link").symlink_to(folder / "own")
    assert shared_file(folder / "own") == shared_file(folder / "elsewhere" / "link") == folder / "base"
    assert shared_file(folder / "base") is None


def test_a_tensor_of_another_type_is_not_shared(tmp_path: Path) -> None:
    save_tensors(tmp_path / "base", BASE)
    wide = {**OWN, "a": BASE["a"].double()}
    save_tensors(tmp_path / "own", wide, shared=tmp_path / "base")
    found = load_tensors(tmp_path / "own")
    assert same(found, wide)
    assert found["a"].dtype == torch.float64


def test_a_link_finds_what_lies_beside_the_file_itself(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "surrogate").symlink_to(folder / "own")
    assert same(load_tensors(elsewhere / "surrogate"), OWN)


def test_without_the_other_file_it_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(folder / "own", alone)
    with pytest.raises(FolderError, match=r"own shares weights with base, which is not beside it: copy both"):
        load_tensors(alone / "own")


def test_another_file_of_that_name_is_refused(folder: Path) -> None:
    save_tensors(folder / "base", {**BASE, "b": BASE["b"] + 1})
    with pytest.raises(FolderError, match=r"shares weights with base, which has changed since"):
        load_tensors(folder / "own")


@pytest.mark.parametrize("kept", [0, 4, 8, 40, 300])
def test_a_cut_file_is_damaged(folder: Path, kept: int) -> None:
    (folder / "own").write_bytes((folder / "own").read_bytes()[:kept])
    with pytest.raises(FolderError, match="damaged"):
        load_tensors(folder / "own")


@pytest.mark.parametrize(
    ("found", "written"),
    [(b'\\"a\\"', b'\\"z\\"'), (b'\\"names\\"', b'\\"numbs\\"'), (b'{\\"file', b'[\\"file')],
)
def test_damaged_words_about_the_other_file_are_noticed(folder: Path, found: bytes, written: bytes) -> None:
    content = (folder / "own").read_bytes()
    assert content.count(found) == 1
    (folder / "own").write_bytes(content.replace(found, written))
    with pytest.raises(FolderError, match="damaged"):
        load_tensors(folder / "own")


def test_no_path_leads_out_of_the_folder(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    content = (folder / "own").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].replace(b'\\"base\\"', b'\\"../base\\"')
    (below / "own").write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    with pytest.raises(FolderError, match=r"shares weights with \.\./base, which is not beside it"):
        load_tensors(below / "own")
