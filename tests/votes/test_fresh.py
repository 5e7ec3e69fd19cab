import torch

from rrise.votes.fresh import FreshVotes
from rrise.votes.plan import VotePlan
from tests.closed_forms import Fan, HalfSpace, Slab


def shares(votes: FreshVotes, inputs: torch.Tensor, key: list[int]) -> torch.Tensor:
    with votes.computing():
        return votes.shares(inputs, torch.tensor(key))


def test_shares_are_those_of_the_smoothed_classifier() -> None:
    fan, inputs = Fan(5), torch.rand(6, 2)
    votes = FreshVotes(fan, VotePlan(0.25, n=20_000, seed=0, input_range=None), inputs)
    truth = torch.from_numpy(fan.probabilities(inputs.numpy(), 0.25)).float()
    torch.testing.assert_close(shares(votes, inputs, [1, 2]), truth, rtol=0, atol=0.02)


def test_every_input_and_every_key_has_its_own_noise(half_space: HalfSpace) -> None:
    same = torch.full((400, 4), 0.4)
    votes = FreshVotes(half_space, VotePlan(0.25, n=4, seed=0), same)
    one, two, other = (shares(votes, same, key) for key in ([1, 2], [1, 2], [1, 3]))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert {0.0, 0.25, 0.5, 0.75, 1.0} == set(one[:, 0].tolist())
    assert abs(float(torch.corrcoef(torch.stack([one[:, 0], other[:, 0]]))[0, 1])) < 0.2


def test_noisy_copies_are_clipped_to_the_input_range() -> None:
    everywhere, inputs = Slab(0.5, 0.6), torch.rand(50, 2)
    plans = (VotePlan(5.0, n=50, seed=0, input_range=limits) for limits in (None, (0.0, 1.0)))
    free, kept = (shares(FreshVotes(everywhere, plan, inputs), inputs, [1, 2]) for plan in plans)
    assert float(kept[:, 1].min()) == 1
    assert float(free[:, 1].mean()) < 0.2
