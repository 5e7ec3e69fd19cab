"""The audit finds what is wrong, calls nothing wrong that is right, and keeps to its radius."""

import copy
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import rrise
from rrise.audit.attacks import ATTACKS
from rrise.audit.auditing import audit
from rrise.audit.findings import NATURAL, Audit, Finding
from rrise.audit.report import audit_text, verdict, write_audit
from rrise.audit.victim import Effort, Victim
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, Kind, no_guarantee
from rrise.errors import InputError, MismatchError, SettingError
from rrise.models.fingerprint import fingerprint
from rrise.votes.smoothing import Smoothing

SIGMA, SIZE = 0.25, 6
EFFORT = Effort(steps=8, restarts=2, copies=8, queries=20)
WITHOUT_GRADIENTS = ["random", "queries", "transfer"]


def half_space() -> nn.Module:
    """Class 0 where the first value is above 1/2: `p(0 | x) = Phi((x_0 - 1/2) / sigma)`."""
    base = nn.Linear(SIZE, 2)
    with torch.no_grad():
        base.weight.zero_()
        base.weight[0, 0], base.bias[:] = 4.0, torch.tensor([-2.0, 0.0])
    return base.eval()


def true_probability(inputs: np.ndarray) -> np.ndarray:
    return stats.norm.cdf((inputs[:, 0] - 0.5) / SIGMA)


@dataclass(frozen=True)
class Claiming:
    """Certifies the true probability of the half-space, plus a lie."""

    lie: float
    smoothing: Smoothing
    input_shape: tuple[int, ...] = (SIZE,)
    class_names: tuple[str, ...] = ("0", "1")
    runtime: str = "by hand"

    @property
    def guarantee(self) -> Guarantee:
        return replace(no_guarantee("by-hand", self.smoothing))

    def certify(self, inputs: Any) -> Certificates:
        p = true_probability(np.asarray(inputs))
        label = (p < 0.5).astype(np.int64)
        bound = np.minimum(np.maximum(p, 1 - p) + self.lie, 0.9999)
        return Certificates.from_bound(label, bound, guarantee=self.guarantee, passes=1)


def claiming(lie: float) -> tuple[Claiming, nn.Module]:
    base = half_space()
    return Claiming(lie, Smoothing(fingerprint(base), rrise.Gaussian(SIGMA), None, "float32")), base


@pytest.fixture(scope="module")
def inputs() -> torch.Tensor:
    return torch.rand((60, SIZE), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def fitted() -> tuple[rrise.SurrogateCertifier, nn.Module, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    base = nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh(), nn.Linear(16, 3))
    with torch.no_grad():
        for part in base.parameters():
            part.copy_(2 * torch.randn(part.shape, generator=generator) / part.shape[-1] ** 0.5)
    images = torch.rand((500, SIZE), generator=generator)
    votes = rrise.collect_votes(base, images[:400], sigma=SIGMA, n=200)
    surrogate = rrise.train_surrogate(base, images[:200], votes[:200], epochs=20)
    certifier = rrise.calibrate(surrogate, images[200:400], votes[200:], failure=0.1)
    return certifier, base, images[400:]


def test_true_bounds_are_not_called_wrong_under_any_attack(inputs: torch.Tensor) -> None:
    certifier, base = claiming(-0.01)
    found = audit(certifier, base, inputs, radii=[0.1, 0.4], effort=EFFORT, seed=1, votes=400)
    assert [finding.attack for finding in found.findings] == [
        NATURAL,
        *(name for name in WITHOUT_GRADIENTS for _ in range(2)),
    ]
    assert all(finding.wrong == 0 for finding in found.findings)
    assert all(finding.issued > 50 for finding in found.findings)
    assert {"inflate", "mislead", "other-class", "other-class-misled"} == set(found.left_out)


def test_a_lie_is_found_and_counted_as_votes_prove_it(inputs: torch.Tensor) -> None:
    certifier, base = claiming(0.2)
    natural, *_ = audit(certifier, base, inputs, radii=[0.1], attacks=["random"], seed=1).findings
    p = true_probability(inputs.numpy())
    lying = np.minimum(np.maximum(p, 1 - p) + 0.2, 0.9999) - np.maximum(p, 1 - p)
    sure, possible = int((lying > 0.1).sum()), int((lying > 0.02).sum())
    assert sure <= natural.wrong <= possible
    share, low, high = natural.failure
    assert low < share == natural.wrong / 60 <= high
    assert natural.worst[0].lower_bound - natural.worst[0].share > 0.15
    assert natural.worst[0].wrong


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("radius", [0.05, 0.6])
def test_inputs_stay_within_the_radius_and_the_range(
    name: str, radius: float, fitted: tuple[rrise.SurrogateCertifier, nn.Module, torch.Tensor]
) -> None:
    certifier, base, images = fitted
    victim = Victim(certifier, base, certifier.network, 0.9, torch.Generator().manual_seed(0))
    moved = ATTACKS[name].move(victim, images, radius, EFFORT).inputs
    assert torch.linalg.vector_norm(moved - images, dim=1).max() <= radius * (1 + 1e-5)
    assert 0 <= moved.min() <= moved.max() <= 1
    assert not torch.equal(moved, images)


def test_attacks_reach_what_they_aim_at(
    fitted: tuple[rrise.SurrogateCertifier, nn.Module, torch.Tensor],
) -> None:
    certifier, base, images = fitted
    victim = Victim(certifier, base, certifier.network, 0.8, torch.Generator().manual_seed(0))

    def said(moved: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            return certifier.network(moved).softmax(dim=1).max(dim=1)

    def smoothed(moved: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return victim.smoothed(moved, label, 400).mean()

    before, label = said(images)
    moved = {
        name: ATTACKS[name].move(victim, images, 0.3, EFFORT).inputs
        for name in ("random", "inflate", "mislead", "other-class")
    }
    assert said(moved["inflate"])[0].mean() > max(before.mean(), said(moved["random"])[0].mean()) + 0.05
    assert smoothed(moved["mislead"], label) < smoothed(moved["inflate"], label)
    assert (said(moved["other-class"])[1] != label).sum() > 2 * (said(moved["random"])[1] != label).sum()


def test_a_seed_makes_it_reproducible(
    fitted: tuple[rrise.SurrogateCertifier, nn.Module, torch.Tensor],
) -> None:
    certifier, base, images = fitted
    how: dict[str, Any] = {"radii": [0.2], "attacks": ["mislead", "queries"], "effort": EFFORT, "votes": 200}
    once, again = (audit(certifier, base, images, seed=3, **how).to_json() for _ in range(2))
    assert once == again
    assert audit(certifier, base, images, seed=4, **how).to_json() != once


def test_what_cannot_be_done_is_said(inputs: torch.Tensor) -> None:
    certifier, base = claiming(0.0)
    with pytest.raises(SettingError, match=r"attacks out of random, .* got 'mislaed': did you mean mislead"):
        audit(certifier, base, inputs, attacks=["mislaed"])
    with pytest.raises(SettingError, match="'mislead' needs gradients of the surrogate"):
        audit(certifier, base, inputs, attacks=["mislead"])
    with pytest.raises(SettingError, match="expected positive radii, got -1"):
        audit(certifier, base, inputs, radii=[0.1, -1.0])
    with pytest.raises(InputError, match="at least one input to attack"):
        audit(certifier, base, inputs[:0])
    with pytest.raises(MismatchError, match="made for the base classifier"):
        audit(certifier, nn.Linear(SIZE, 2), inputs)
    with pytest.raises(SettingError, match=r"steps to be at least 1|at least 1"):
        Effort(steps=0)


def test_the_report_says_what_was_found(inputs: torch.Tensor, tmp_path: Path) -> None:
    certifier, base = claiming(0.2)
    found = audit(certifier, base, inputs, radii=[0.1], attacks=["random"], seed=1)
    write_audit(tmp_path / "audit", found, (0.0, 1.0))
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "audit.json",
        "audit.md",
        "attacks.png",
        "attacks.svg",
    }
    stored = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert stored["findings"][0]["wrong"] == found.findings[0].wrong
    assert "promises nothing" in verdict(found)
    promised = replace(found, promised=0.05, kind=Kind.MARGINAL)
    assert verdict(promised).startswith("Exceeded: unattacked, ")
    honest = Audit((replace(found.findings[0], wrong=1),), "", "", 0.05, 100)
    assert verdict(honest).startswith("No attack is proved to exceed the promised failure of 5 %")
    attacked = replace(found.findings[1], wrong=30)
    broken = replace(promised, findings=(replace(found.findings[0], wrong=0), attacked))
    assert verdict(broken) == (
        "Under the attack random at radius 0.1, 50.0 % of the inputs get a wrong certificate. The failure of "
        "5 % is promised only for inputs that nobody chose."
    )
    assert verdict(replace(broken, attack_radius=0.1)) == (
        "Exceeded: under the attack random at radius 0.1, 50.0 % of the inputs get a wrong certificate; 5 % "
        "is promised on average over calibration sets, so this set may be unlucky."
    )
    many = replace(attacked, tries=20)
    assert "moved by at most 0.1, and for one try" in verdict(
        replace(broken, attack_radius=0.1, findings=(broken.findings[0], many))
    )
    assert verdict(replace(broken, attack_radius=0.2, tries=20, findings=(many,))).startswith("Exceeded")
    assert "| natural | 0 | 60 of 60 |" in audit_text(found)


def finding(attack: str, radius: float, *, inputs: int, issued: int, wrong: int, tries: int = 1) -> Finding:
    return Finding(attack, radius, inputs, issued, wrong, above=wrong, changed=0, tries=tries)


def test_the_verdict_counts_what_the_promise_counts() -> None:
    """40 of 1,000 inputs are wrong; of the 100 issued ones, 40 %."""
    natural = finding("natural", 0.0, inputs=1000, issued=100, wrong=40)
    marginal = Audit((natural,), "", "", 0.05, 100)
    issued = replace(marginal, kind=Kind.ISSUED)
    assert verdict(marginal).startswith("No attack is proved")
    assert verdict(issued).startswith("Exceeded: unattacked, 40.0 % of the issued certificates are wrong; ")
    assert Audit.from_json(issued.to_json()).kind is Kind.ISSUED


def test_a_promise_for_each_input_covers_any_move_but_not_the_best_of_several() -> None:
    moved = finding("mislead", 9.0, inputs=1000, issued=1000, wrong=400)
    best = replace(moved, attack="queries", tries=50)
    one, many = (Audit((each,), "", "", 0.01, 100, kind=Kind.PER_INPUT) for each in (moved, best))
    assert verdict(one).startswith("Exceeded: under the attack mislead at radius 9, 40.0 %")
    assert verdict(many).endswith("promised for one certificate of each input, not for the best of several.")


def test_chance_alone_exceeds_nothing() -> None:
    """Of 40 attacks that keep the level, the luckiest is above it; the verdict allows for that."""
    random = np.random.default_rng(0)
    exceeded = 0
    for _ in range(400):
        counts = random.binomial(500, 0.05, 40)
        findings = [finding("random", 0.1, inputs=500, issued=500, wrong=int(wrong)) for wrong in counts]
        kept = Audit(tuple(findings), "", "", 0.05, 100, attack_radius=0.1)
        exceeded += kept.exceeding(covered=True) is not None
    assert exceeded <= 400 * 0.05
    bad = finding("mislead", 0.1, inputs=500, issued=500, wrong=60)
    worst = replace(kept, findings=(*findings, bad)).exceeding(covered=True)
    assert worst is not None
    assert worst.attack == "mislead"


def test_votes_of_a_cascade_are_not_judged_at_the_natural_input(inputs: torch.Tensor) -> None:
    certifier, base = attack_aware()
    cascade = rrise.Cascade(certifier, base, radius=10.0)  # Monte Carlo certifies all
    found = audit(cascade, base, inputs[:10], radii=[0.1], attacks=["random"], seed=1, votes=200)
    assert {each.wrong_before for each in found.findings} == {0}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_attacks_run_on_the_device_of_the_base_classifier(
    fitted: tuple[rrise.SurrogateCertifier, nn.Module, torch.Tensor],
) -> None:
    certifier, base, images = fitted
    found = audit(
        certifier, copy.deepcopy(base).cuda(), images, radii=[0.2], effort=EFFORT, seed=1, votes=200
    )
    assert len(found.findings) == 1 + len(ATTACKS)


def attack_aware(radius: float = 0.1, noise: float = 0.2) -> tuple[rrise.SurrogateCertifier, nn.Module]:
    """A surrogate of the half-space that believes too much, with an attack radius."""
    base, surrogate = half_space(), half_space()
    with torch.no_grad():
        for part in surrogate.parameters():
            part.mul_(3.0)
    images = torch.rand((800, SIZE), generator=torch.Generator().manual_seed(2))
    votes = rrise.collect_votes(base, images, sigma=SIGMA, n=500, input_range=None)
    how: dict[str, Any] = {"failure": 0.05, "attack_radius": radius, "query_noise": noise, "score": "probit"}
    return rrise.calibrate(surrogate, images, votes, base=base, input_range=None, noise_seed=1, **how), base


def test_an_attack_radius_is_judged_at_the_natural_input_too(inputs: torch.Tensor) -> None:
    certifier, base = attack_aware()
    found = audit(certifier, base, inputs.repeat(4, 1), effort=EFFORT, seed=1, votes=400)
    assert sorted({finding.radius for finding in found.findings}) == [0.0, 0.1, SIGMA / 2, SIGMA]
    assert (found.attack_radius, found.tries, found.promised) == (0.1, 1, 0.05)
    for finding in found.findings:
        assert finding.wrong_before is not None
        covered = finding.radius <= 0.1 and finding.attack != "queries"
        assert found.covers(finding) == covered
        if covered:
            assert max(finding.wrong, finding.wrong_before) <= 0.05 * finding.inputs + 12
    assert {finding.tries for finding in found.findings if finding.attack == "queries"} == {EFFORT.queries}
    assert "| 5 % |" in audit_text(found)
    assert "| nothing |" in audit_text(found)


def test_a_radius_that_is_not_shortened_is_found(inputs: torch.Tensor) -> None:
    """The judge notices a certifier that promises an attack radius and does not pay for it."""
    certifier, base = attack_aware(radius=0.3, noise=0.3)
    threat = certifier.calibration.threat
    assert threat is not None
    unpaid = replace(
        certifier,
        calibration=replace(certifier.calibration, offsets=(-1.5,)),
    )
    honest, lying = (
        audit(one, base, inputs.repeat(3, 1), radii=[0.3], attacks=["inflate"], effort=EFFORT, seed=1)
        for one in (certifier, unpaid)
    )
    assert verdict(honest).startswith("No attack is proved")
    assert verdict(lying).startswith("Exceeded: ")


def test_attacks_average_over_query_noise(inputs: torch.Tensor) -> None:
    certifier, base = attack_aware()
    victim = Victim(certifier, base, certifier.network, 0.9, torch.Generator().manual_seed(0))
    assert victim.query_noise == 0.2
    label = torch.zeros(len(inputs), dtype=torch.int64)
    said = victim.said(certifier.network, inputs, label, 4_000).sigmoid().detach().numpy()
    noisy = inputs[:, None] + 0.2 * torch.randn((len(inputs), 4_000, SIZE))
    with torch.no_grad():
        expected = (
            certifier.network(noisy.flatten(0, 1)).softmax(dim=1)[:, 0].reshape(len(inputs), -1).mean(1)
        )
    np.testing.assert_allclose(said, expected.numpy(), atol=0.03)
    assert victim.ranked(certifier.network, inputs, 64).shape == (len(inputs), 2)


def test_several_tries_use_the_best_certificate(inputs: torch.Tensor) -> None:
    certifier, base = attack_aware()
    victim = Victim(certifier, base, certifier.network, 0.9, torch.Generator().manual_seed(0))
    made = ATTACKS["queries"].move(victim, inputs, 0.1, replace(EFFORT, queries=40))
    assert made.tries == 40
    assert made.certificates is not None
    once = certifier.certify(inputs)
    assert made.certificates.lower_bound.mean() > once.lower_bound.mean() + 0.02


def test_an_attack_adds_the_noise_that_is_certified_clipped_or_not() -> None:
    seen: list[torch.Tensor] = []
    base = half_space()
    base.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    inputs, label = torch.full((2, SIZE), 0.5), torch.zeros(2, dtype=torch.int64)
    for noise in (rrise.Gaussian(1.0), rrise.UnclippedGaussian(1.0)):
        certifier = Claiming(0.0, Smoothing("b", noise, (0.0, 1.0), "float32"))
        victim = Victim(certifier, base, None, 0.9, torch.Generator().manual_seed(0))
        victim.smoothed(inputs, label, 500)
        moved = victim.within(inputs, inputs + 9, 9.0)
        assert moved.max() == 1  # an attack keeps to the input range
    clipped, unclipped = seen
    assert (clipped.min(), clipped.max()) == (0, 1)
    assert unclipped.std().item() == pytest.approx(1, rel=0.05)
