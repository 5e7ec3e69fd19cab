"""The command line, called in this process."""

import sys

import pytest

from rrise.cli import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """Run `rrise …` in this process and return exit code, output and errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rrise", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        assert "Traceback" not in output.err + output.out
        return int(end.value.code or 0), output.out, output.err

    return call
