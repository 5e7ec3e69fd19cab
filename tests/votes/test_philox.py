import math
import shutil

import numpy as np
import pytest
import torch
from scipy import stats

from rrise.votes.philox import _four_by_four, _number_by_number, key_of, philox, standard_normal

CPU = torch.device("cpu")
STORED = [
    [-2.5333257, -0.8151264, 0.4897101, 0.3732408, 0.3359012, 0.7502814],
    [-0.8123900, 1.7558552, 1.1535290, 0.3557889, -0.0480584, 0.3176186],
    [0.7664573, -0.5860146, 0.3624970, -1.9271767, 1.3752166, 0.2376214],
]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_answers(counter: str, key: str, expected: str) -> None:
    """The known answers of Random123, the authors' library."""
    words = tuple(torch.tensor([int(word, 16)]) for word in counter.split())
    drawn = philox(words, torch.tensor([int(word, 16) for word in key.split()]))
    assert " ".join(f"{word.item():08x}" for word in drawn) == expected


def _python_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox with whole numbers of any size, as the paper writes it."""
    for _ in range(10):
        left, right = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (right >> 32) ^ counter[1] ^ key[0],
            right % 2**32,
            (left >> 32) ^ counter[3] ^ key[1],
            left % 2**32,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_philox_agrees_with_arithmetic_that_cannot_overflow() -> None:
    random = np.random.default_rng(0)
    counters, key = random.integers(0, 2**32, (200, 4)), random.integers(0, 2**32, 2)
    words = torch.stack(philox(tuple(torch.from_numpy(counters).T), torch.from_numpy(key)), dim=1)
    expected = [_python_philox(counter, key.tolist()) for counter in counters.tolist()]
    assert words.tolist() == expected


def test_a_number_depends_on_its_place_alone() -> None:
    key = key_of(2**63 - 25, CPU)
    draw, owner = torch.arange(60) // 5, torch.arange(60) % 5
    whole = standard_normal(key, draw, owner, 10)
    picked = torch.tensor([59, 3, 17])
    assert torch.equal(standard_normal(key, draw[picked], owner[picked], 10), whole[picked])
    assert whole.unique().numel() == whole.numel()
    for other in (key_of(2**63 - 24, CPU), key_of(2**62, CPU)):
        assert not torch.isclose(standard_normal(other, draw, owner, 10), whole).any(dim=1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64])
def test_any_size_of_input(size: int) -> None:
    numbers = standard_normal(key_of(1, CPU), torch.arange(9), torch.arange(9), size)
    assert numbers.shape == (9, size)


@pytest.mark.parametrize("size", [1, 2, 5, 12, 64])
def test_the_form_for_compiled_gpu_code_gives_the_same_numbers(size: int) -> None:
    key, draw, owner = key_of(7, CPU), torch.arange(6) // 2, torch.arange(6) % 2
    assert torch.equal(_number_by_number(key, draw, owner, size), _four_by_four(key, draw, owner, size))


@pytest.mark.parametrize("size", [3, 768, 200_000])
def test_chunks_give_the_numbers_of_one_piece(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    key, sample = key_of(7, CPU), torch.arange(600_000 // size if size > 3 else 100_000)
    draw, owner = sample // 7, sample % 7
    monkeypatch.setattr("rrise.votes.philox._CHUNK", 1_000)
    assert torch.equal(standard_normal(key, draw, owner, size), _four_by_four(key, draw, owner, size))


def test_stored_votes_stay_reproducible() -> None:
    """These numbers are those of the first release: other numbers would change every published vote."""
    draw, owner = torch.tensor([0, 1, 10_000]), torch.tensor([0, 63, 5])
    drawn = standard_normal(key_of(0x1234_5678_9ABC_DEF0, CPU), draw, owner, 6)
    assert torch.allclose(drawn, torch.tensor(STORED), atol=2e-6)


def test_numbers_are_normal_to_the_tails() -> None:
    count = 2_000_000
    numbers = standard_normal(key_of(7, CPU), torch.arange(count // 100), torch.zeros(1).long(), 100)
    numbers = numbers.double().numpy().reshape(-1)
    assert stats.kstest(numbers, "norm").pvalue > 1e-4
    for limit in (2, 3, 4, 4.5):
        expected = 2 * stats.norm.sf(limit) * count
        assert abs((np.abs(numbers) > limit).sum() - expected) < 4.5 * math.sqrt(expected)


def test_the_smallest_and_largest_words_give_finite_numbers() -> None:
    from rrise.votes.philox import _box_muller

    ends = torch.tensor([0, 1, 2**31, 2**32 - 1])
    for radius_word in ends:
        pair = torch.stack(_box_muller(radius_word.expand(4), ends))
        assert torch.isfinite(pair).all()
        assert pair.abs().max() < 6.8


def test_rows_columns_and_keys_are_uncorrelated() -> None:
    rows = [
        standard_normal(key_of(seed, CPU), torch.arange(400), torch.full((1,), owner), 256)
        for seed, owner in ((0, 0), (0, 1), (1, 0), (2**32, 0))
    ]
    numbers = torch.stack(rows).double().numpy()
    limit = 4.5 / math.sqrt(numbers[0].size)
    for i in range(4):
        for j in range(i):  # other owners, and keys that differ in the low or in the high word
            assert abs((numbers[i] * numbers[j]).mean()) < limit
    first = numbers[0]
    for lag in (1, 2, 3, 64, 128):  # columns: 64 apart are the numbers of one quadruple
        assert abs((first[:, lag:] * first[:, :-lag]).mean()) < limit * 1.5
        assert abs((first[lag:] * first[:-lag]).mean()) < limit * 1.5
        assert abs(((first[:, lag:] ** 2 - 1) * (first[:, :-lag] ** 2 - 1)).mean()) < limit * 3


@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_noise_is_the_same_up_to_the_last_bit() -> None:
    """Arithmetic that overflows comes out differently in compiled code; this failed once."""

    def draw(key: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        sample = torch.arange(64)
        return standard_normal(key, sample // count, sample % count, 768)

    key, count = key_of(2**62 + 12345, CPU), torch.tensor(7)
    difference = torch.compile(draw, dynamic=False)(key, count) - draw(key, count)
    assert difference.abs().max() < 2e-6
