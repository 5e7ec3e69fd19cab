"""A journal tells what was done, by what, also of work that was interrupted."""

from pathlib import Path

import pytest
import torch

from rrise.runs.journal import Journal, read_journal


def test_work_that_was_interrupted_is_told_with_what_it_did(tmp_path: Path) -> None:
    journal = Journal(tmp_path, torch.device("cpu"))

    def work() -> None:
        with journal.entry("votes/train", "passes") as count:
            count(30)
            count(12)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    with journal.entry("votes/train", "passes") as count:
        count(58)
    entries = read_journal(tmp_path)
    assert [(entry["passes"], entry["finished"]) for entry in entries] == [(42, False), (58, True)]
    assert all(entry["seconds"] >= 0 and entry["torch"] == torch.__version__ for entry in entries)


def test_kernels_chosen_by_timing_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, torch.device("cpu"))
    with journal.entry("base"):
        pass
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with journal.entry("base"):
        pass
    assert [entry.get("cudnn_benchmark") for entry in read_journal(tmp_path)] == [None, True]
