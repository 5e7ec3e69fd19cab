import re
from pathlib import Path

import pytest

from rrise.errors import FolderError
from rrise.files import (
    new_folder,
    read_json,
    read_signed_json,
    sha256_of_json,
    write_bytes,
    write_json,
    write_signed_json,
)


def test_a_failed_write_leaves_the_former_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FolderError, match=rf"file\.json could not be written to {tmp_path}: No space left"):
        write_bytes(path, b"new")
    assert read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["file.json"]


def test_nan_is_not_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "sentence"), [("{", "not a readable JSON"), ("[1]", "expected a JSON object")]
)
def test_broken_json_is_named(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_json(tmp_path / "x.json")
    with pytest.raises(ValueError, match="there is none"):
        read_json(tmp_path / "absent.json")


def test_checksums_do_not_depend_on_the_order_of_keys() -> None:
    assert (
        sha256_of_json({"a": 1, "b": 2})
        == sha256_of_json({"b": 2, "a": 1})
        != sha256_of_json({"a": 2, "b": 1})
    )


def test_a_new_folder_replaces_the_former_in_one_step(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with new_folder(tmp_path / "folder") as new:
            (new / "file").write_text(content)
            assert not (tmp_path / "folder" / "file").exists() or content == "second"
    assert (tmp_path / "folder" / "file").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_sentences_name_the_folder_that_is_written_not_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    sentence = f"x.json could not be written to {tmp_path / 'folder'}: No space left on device"
    with pytest.raises(FolderError, match=f"^{re.escape(sentence)}$"), new_folder(tmp_path / "folder") as new:
        write_json(new / "x.json", {})
    assert not list(tmp_path.iterdir())


def test_an_interrupt_between_the_renames_restores_the_former_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_folder(tmp_path / "folder") as new:
        (new / "file").write_text("first")
    rename = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "folder") as new:
        (new / "file").write_text("second")
    assert (tmp_path / "folder" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_edited_signed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_signed_json(path, {"a": 1, "b": [2.5]})
    assert read_signed_json(path) == {"a": 1, "b": [2.5]}
    path.write_text(path.read_text().replace("2.5", "2.6"))
    with pytest.raises(ValueError, match="was edited"):
        read_signed_json(path)
