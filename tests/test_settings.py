"""A setting is declared once; checks, words and tables follow from that."""

from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from rrise.errors import SettingError
from rrise.settings import Setting, check_settings, declared, markdown_table, stored_settings, table_rows


@dataclass(frozen=True)
class Kitchen:
    cooks: Annotated[int, Setting("People who cook.", least=1)]
    salt: Annotated[float, Setting("Grams of salt.", least=0, below=10)] = 2.5
    heat: Annotated[float | None, Setting("Degrees.", above=0, most=300, unset="as it comes")] = None
    guests: Annotated[int | float, Setting("Guests who eat.", share=True)] = 0.5
    meal: Annotated[Literal["lunch", "dinner"], Setting("Which meal.")] = "lunch"
    taste: Annotated[str, Setting("How it tastes.", names=("sweet", "sour"), option="--flavour")] = "sour"
    times: Annotated[tuple[int, ...], Setting("Minutes.", least=1)] = (5, 1_000)
    is_open: Annotated[bool, Setting("Whether it is open.")] = True
    menu: Annotated[dict[str, Any], Setting("What there is.")] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self, "kitchen.")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cooks": 0}, "expected kitchen.cooks to be at least 1, got 0"),
        ({"cooks": 1.5}, "expected kitchen.cooks to be a whole number, got 1.5"),
        ({"cooks": "2"}, "expected kitchen.cooks to be a whole number, got '2'"),
        ({"cooks": None}, "expected kitchen.cooks to be a whole number, got None"),
        ({"salt": 10}, "expected kitchen.salt to be at least 0 and below 10, got 10"),
        ({"salt": float("nan")}, "expected kitchen.salt to be at least 0 and below 10, got nan"),
        ({"salt": "much"}, "expected kitchen.salt to be a number, got 'much'"),
        ({"heat": 0.0}, "expected kitchen.heat to be above 0 and at most 300, got 0.0"),
        ({"heat": 301}, "expected kitchen.heat to be above 0 and at most 300, got 301"),
        ({"guests": 0}, "expected kitchen.guests to be a count of at least 1, or a share; got 0"),
        ({"guests": 1.0}, "expected kitchen.guests to be a share strictly between 0 and 1, got 1.0"),
        ({"meal": "diner"}, "expected kitchen.meal out of lunch, dinner; got 'diner': did you mean dinner?"),
        ({"taste": "bitter"}, "expected kitchen.taste out of sweet, sour; got 'bitter'"),
        ({"times": (3, 0)}, "expected each of kitchen.times to be at least 1, got 0"),
    ],
    ids=str,
)
def test_a_value_beyond_its_declaration_is_refused_in_a_sentence(changes: Any, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        Kitchen(**{"cooks": 1, **changes})
    assert str(refused.value) == sentence


def test_values_within_the_limits_are_taken() -> None:
    Kitchen(cooks=np.int64(1), salt=0, heat=300, guests=3, meal="dinner", taste="sweet", times=())


def test_infinity_is_beyond_every_limit() -> None:
    kind = make_dataclass("Open", [("size", Annotated[float, Setting("A size.", above=0)])])
    with pytest.raises(SettingError, match="expected size to be above 0, got inf"):
        check_settings(kind(float("inf")))


def test_a_table_tells_default_type_limits_and_meaning() -> None:
    assert table_rows(Kitchen) == [
        ("cooks", "", "a whole number, at least 1", "People who cook."),
        ("salt", "2.5", "a number, at least 0 and below 10", "Grams of salt."),
        ("heat", "as it comes", "a number, above 0 and at most 300", "Degrees."),
        ("guests", "0.5", "a count, or a share between 0 and 1", "Guests who eat."),
        ("meal", "lunch", "lunch, dinner", "Which meal."),
        ("taste", "sour", "sweet, sour", "How it tastes."),
        ("times", "[5, 1_000]", "a list of whole numbers, each at least 1", "Minutes."),
        ("is_open", "true", "true or false", "Whether it is open."),
        ("menu", "{}", "a table", "What there is."),
    ]
    lines = markdown_table(Kitchen, options=True).splitlines()
    assert lines[:2] == ["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    assert lines[7] == "| `--flavour` | sour | sweet, sour | How it tastes. |"
    assert lines[9].startswith("| `--is-open` | true |")


def test_a_field_that_says_nothing_of_itself_is_a_mistake() -> None:
    with pytest.raises(TypeError, match=r"Silent\.size needs a Setting in its annotation"):
        declared(make_dataclass("Silent", [("size", int)]))


def test_a_quiet_setting_is_stored_only_if_it_is_not_its_default() -> None:
    @dataclass(frozen=True)
    class Grown:
        old: Annotated[int, Setting("A setting from the beginning.")] = 1
        new: Annotated[dict[str, int], Setting("One that was added later.", quiet=True)] = field(
            default_factory=dict
        )

    assert stored_settings(Grown()) == {"old": 1}
    assert stored_settings(Grown(new={"a": 2})) == {"old": 1, "new": {"a": 2}}
