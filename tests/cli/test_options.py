"""Options are made from settings that are declared once."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from rrise.cli.options import check_needed, options_of
from rrise.deployment.monitor.settings import MonitorSettings
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import SettingError
from rrise.runs.vote_recipe import VoteRecipe
from rrise.settings import Setting, declared


@dataclass(frozen=True)
class Oven:
    heat: Annotated[int, Setting("Degrees of heat.")] = 180
    fan: Annotated[bool, Setting("Blow.", option="--blow")] = False
    door: Annotated[str, Setting("Its door.", names=("open", "shut"))] = "shut"
    hidden: Annotated[int, Setting("No option.")] = 0


@dataclass(frozen=True)
class HotOven(Oven):
    heat: Annotated[int, Setting("Degrees of heat.")] = 250


def command_of(kind: type, told: list[Any]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @options_of(kind, "given", without=("hidden",))
    def bake(bread: str, *, given: dict[str, Any], minutes: int = 30) -> None:
        told.append((bread, given, minutes))

    return app


def test_what_is_given_arrives_by_its_name_and_the_rest_is_left_out() -> None:
    told: list[Any] = []
    app = command_of(Oven, told)
    for arguments in (["rye"], ["rye", "--heat", "0", "--no-blow"], ["rye", "--blow", "--minutes", "3"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert told == [("rye", {}, 30), ("rye", {"heat": 0, "fan": False}, 30), ("rye", {"fan": True}, 3)]
    assert CliRunner().invoke(app, ["rye", "--hidden", "1"]).exit_code == 2
    assert CliRunner().invoke(app, ["rye", "--heat", "warm"]).exit_code == 2


def test_help_tells_meaning_default_and_names() -> None:
    plain = " ".join(
        CliRunner().invoke(command_of(Oven, []), ["--help"], env={"COLUMNS": "200"}).output.split()
    )
    assert "Degrees of heat. [default: (180)]" in plain
    assert "Its door. One of open, shut. [default: (shut)]" in plain
    hot = CliRunner().invoke(command_of(HotOven, []), ["--help"], env={"COLUMNS": "200"}).output
    assert "[default: (250)]" in hot
    assert "180" not in hot


@pytest.mark.parametrize(
    ("command", "kind"), [("serve", ServiceSettings), ("serve", MonitorSettings), ("vote", VoteRecipe)]
)
def test_every_setting_is_an_option_with_its_default(run, command: str, kind: type) -> None:
    code, output, _ = run(command, "--help")
    assert code == 0
    words = " ".join(re.sub("[│╭╰─╮╯]", " ", output).split())
    for part in declared(kind):
        assert f" {part.option} " in words
        if part.name not in ("token", "options"):
            assert part.setting.help.replace("`", "") in words
            assert not part.default_words or f"[default: ({part.default_words})]" in words


def test_options_that_would_do_nothing_are_named() -> None:
    check_needed("--oven", True, {"--heat": 3})
    check_needed("--oven", False, {"--heat": None})
    with pytest.raises(SettingError, match="--heat has no effect without --oven: pass both"):
        check_needed("--oven", False, {"--blow": None, "--heat": 0})
