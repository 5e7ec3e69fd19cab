"""Commands with an attack radius."""

import json
from pathlib import Path


def test_the_commands_take_another_attack_radius(run, attacked_run: Path, tmp_path: Path) -> None:
    samples = attacked_run / "evaluation" / "samples"
    code, output, _ = run("certify", attacked_run / "certifier", samples, "--attack-radius", 0.02)
    assert code == 0
    assert "somebody moved the input by up to 0.02 before" in " ".join(output.split())
    code, output, _ = run(
        *("export", attacked_run / "certifier", "--out", tmp_path / "exported", "--attack-radius", 0.02)
    )
    assert code == 0
    assert "by up to 0.02" in (tmp_path / "exported" / "README.md").read_text()
    quick = ("--inputs", 30, "--votes", 100, "--steps", 2, "--restarts", 1, "--queries", 3, "--seed", 1)
    command = ("audit", attacked_run / "certifier", "--base", attacked_run / "base", "--data", attacked_run)
    code, output, _ = run(*command, *quick, "--attack-radius", 0.02, "--out", tmp_path / "audit")
    assert code == 0
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert found["attack_radius"] == 0.02
    assert {one["radius"] for one in found["findings"]} == {0.0, 0.02, 0.125, 0.25}
    code, _, errors = run("certify", tmp_path / "exported", samples, "--attack-radius", 0.05)
    assert code == 2
    assert "exported for the attack radius 0.02, got 0.05" in errors


def test_a_plain_certifier_has_no_attack_radius(run, quick_demo: Path) -> None:
    samples = quick_demo / "evaluation" / "samples"
    code, _, errors = run("certify", quick_demo / "certifier", samples, "--attack-radius", 0.02)
    assert code == 2
    assert "adds no noise to queries" in errors
