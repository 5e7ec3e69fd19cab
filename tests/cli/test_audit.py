import json
from pathlib import Path

QUICK = ("--inputs", 40, "--votes", 100, "--steps", 3, "--restarts", 1, "--queries", 5, "--seed", 1)


def test_a_run_is_audited_on_its_test_inputs(run, quick_demo: Path, tmp_path: Path) -> None:
    command = ("audit", quick_demo / "certifier", "--base", quick_demo / "base", "--data", quick_demo)
    code, output, _ = run(*command, *QUICK, "--radius", 0.2, "--out", tmp_path / "audit")
    assert code == 0
    for words in ("natural", "queries", "transfer", "inflate", "mislead", "other-class-misled", "report:"):
        assert words in output
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert found["findings"][0]["inputs"] == 40
    assert {one["radius"] for one in found["findings"]} == {0.0, 0.2}
    assert found["promised"] == 0.01
    assert "# Audit" in (tmp_path / "audit" / "audit.md").read_text()


def test_a_wrong_argument_is_a_sentence(run, quick_demo: Path, tmp_path: Path) -> None:
    command = ("audit", quick_demo / "certifier", "--base", quick_demo / "base", "--data", "digits", *QUICK)
    code, _, errors = run(*command, "--attack", "infalte", "--out", tmp_path / "audit")
    assert (code, "did you mean inflate" in errors) == (2, True)
    code, _, errors = run(*command, "--radius", -1, "--out", tmp_path / "audit")
    assert (code, "expected positive radii, got -1" in errors) == (2, True)
    assert not (tmp_path / "audit").exists()


def test_an_exported_certifier_is_attacked_without_its_gradients(
    run, quick_demo: Path, tmp_path: Path
) -> None:
    assert run("export", quick_demo / "certifier", "--out", tmp_path / "exported")[0] == 0
    command = ("audit", tmp_path / "exported", "--base", quick_demo / "base", "--data", "digits")
    code, output, _ = run(*command, *QUICK, "--radius", 0.2, "--out", tmp_path / "audit")
    assert code == 0
    assert "left out, for lack of gradients: inflate, mislead, other-class" in output
