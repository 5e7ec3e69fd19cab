"""A guarantee is data: its id depends on the facts, and words are rendered from it."""

from dataclasses import replace
from fractions import Fraction

import pytest

from rrise.certifiers import guarantee_words
from rrise.certifiers.guarantee import (
    Assumption,
    FormFacts,
    Guarantee,
    Kind,
    no_guarantee,
    per_input_guarantee,
)
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import FolderError
from rrise.files import sha256_of_json
from rrise.votes.smoothing import Smoothing

SMOOTHING = Smoothing("f" * 64, 0.25, (0.0, 1.0), "float32")


@pytest.fixture
def guarantees(certifier: SurrogateCertifier) -> list[Guarantee]:
    marginal = certifier.guarantee
    assert marginal.calibration is not None
    audited = replace(marginal.calibration, seen_in_training=None, source="queries audited today")
    form = FormFacts("onnxruntime", "int8", 128, "of the certifier's calibration inputs")
    return [
        marginal,
        replace(
            marginal,
            calibration=audited,
            form=form,
            assumptions=(*marginal.assumptions, Assumption.CHOSEN_BLINDLY, Assumption.SAME_FORM),
        ),
        per_input_guarantee("sequential", Fraction(1, 100), SMOOTHING, largest_budget=500, tolerance=None),
        replace(
            per_input_guarantee("monte-carlo-one-stage", Fraction(1, 50), SMOOTHING), nominal=Fraction(1, 100)
        ),
        no_guarantee("early-stopping", SMOOTHING, Fraction(1, 3), looks=10),
        no_guarantee("surrogate-at-face-value", SMOOTHING),
    ]


def test_it_is_read_back_from_json(guarantees: list[Guarantee]) -> None:
    for guarantee in guarantees:
        again = Guarantee.from_json(guarantee.to_json(), guarantee.smoothing)
        assert again == guarantee
        assert again.id == guarantee.id
    assert len({guarantee.id for guarantee in guarantees}) == len(guarantees)


def test_its_id_depends_on_every_fact(guarantees: list[Guarantee]) -> None:
    first = guarantees[0]
    assert first.calibration is not None
    others = [
        replace(first, failure=Fraction(1, 9)),
        replace(first, kind=Kind.PER_INPUT),
        replace(first, method="other"),
        replace(first, smoothing=SMOOTHING),
        replace(first, assumptions=()),
        replace(first, nominal=Fraction(1, 9)),
        replace(first, settings={"votes": 3}),
        replace(first, form=FormFacts("openvino", "fp32")),
        replace(first, calibration=replace(first.calibration, votes=7)),
    ]
    assert len({first.id, *(other.id for other in others)}) == len(others) + 1


def test_its_id_does_not_depend_on_the_words(
    guarantees: list[Guarantee], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [(guarantee.id, guarantee.words) for guarantee in guarantees]
    monkeypatch.setattr(guarantee_words, "WRONG", "something is wrong in {norm}")
    monkeypatch.setattr(guarantee_words, "ABOUT_THE_TRUTH", "that it is true.")
    for guarantee, (name, words) in zip(guarantees, before, strict=True):
        assert guarantee.id == name
        assert guarantee.words != words
        lied = {**guarantee.to_json(), "promise": "Never wrong."}
        assert Guarantee.from_json(lied, guarantee.smoothing) == guarantee


def test_the_words_name_level_norm_and_every_assumption(guarantees: list[Guarantee]) -> None:
    for guarantee in guarantees:
        words = guarantee.words
        if guarantee.failure is not None:
            assert f"at most {guarantee.failure_text}" in words.promise
        else:
            assert words.promise.startswith("Nothing is promised.")
        assert "L2" in words.promise
        assert len(words.assumptions) == len(guarantee.assumptions)
        assert str(guarantee).count("\n") == len(words.assumptions) + len(words.not_promised)
    text = str(guarantees[1])
    for part in ("queries audited today", "128 of the certifier's calibration inputs", "onnxruntime", "int8"):
        assert part in text
    assert "twice the nominal 0.01" in guarantees[3].words.promise
    assert "1/3" in guarantees[4].words.not_promised[0]


def test_a_stored_guarantee_that_contradicts_itself_or_its_file_is_refused(
    guarantees: list[Guarantee],
) -> None:
    other = Smoothing("f" * 64, 1.0, (0.0, 1.0), "float32")
    for guarantee in guarantees:
        stored = guarantee.to_json()
        with pytest.raises(FolderError, match="of another smoothed classifier than its file"):
            Guarantee.from_json(stored, other)
        for change in (
            {"id": "0" * 12},
            {"failure": "0.0001"},
            {"facts": {**stored["facts"], "norm": "Linf"}},
        ):
            with pytest.raises(FolderError, match="a guarantee contradicts itself"):
                Guarantee.from_json({**stored, **change}, guarantee.smoothing)
        lied = {**stored["facts"], "norm": "Linf"}
        signed = {**stored, "facts": lied, "id": sha256_of_json(lied)[:12]}
        with pytest.raises(FolderError, match="its failure or norm is not that of its facts"):
            Guarantee.from_json(signed, guarantee.smoothing)
