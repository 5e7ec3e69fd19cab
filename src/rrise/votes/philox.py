"""Counter-based random numbers: each number is a function of its position.

There is no state: any part of them can be drawn anywhere, in any order.

Philox4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) turns a 64-bit key and a
128-bit counter into four 32-bit words. Box–Muller turns each pair of words into two normal numbers. The code
uses torch operators only, so it runs on every device and inside compiled functions.
"""

import math

import torch

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_UNIT = 2.0**-32

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def philox(counter: Words, key: torch.Tensor) -> Words:
    """Return the four words of Philox4x32-10; words are int64 tensors that hold 32 bits."""
    first, second, third, fourth = counter
    low, high = key[0], key[1]
    for _ in range(_ROUNDS):
        left_high, left_low = _product(first, _MULTIPLIERS[0])
        right_high, right_low = _product(third, _MULTIPLIERS[1])
        first, second = right_high ^ second ^ low, right_low
        third, fourth = left_high ^ fourth ^ high, left_low
        low, high = (low + _KEY_STEPS[0]) & _WORD, (high + _KEY_STEPS[1]) & _WORD
    return first, second, third, fourth


def _product(word: torch.Tensor, multiplier: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and the low word of a 64-bit product.

    On the CPU it is assembled from halves: compiled to C++, a product that overflows int64 is undefined, and
    does come out wrong. On a GPU it wraps around, as it should.
    """
    if word.device.type == "cuda":
        product = word * multiplier
        return (product >> 32) & _WORD, product & _WORD
    upper, lower = (word >> 16) * multiplier, (word & 0xFFFF) * multiplier
    return (upper + (lower >> 16)) >> 16, (((upper & 0xFFFF) << 16) + lower) & _WORD


def standard_normal(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Return `[samples, size]` independent N(0, 1) numbers in float32.

    Row i depends only on the key (two 32-bit words), `draw[i]` and `owner[i]`: the same three give the same
    row. The numbers reach 6.7 standard deviations; a share of 2e-11 of the distribution lies beyond.
    """
    if key.device.type == "cuda" and torch.compiler.is_compiling():
        return _number_by_number(key, draw, owner, size)
    return _four_by_four(key, draw, owner, size)


def _four_by_four(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Draw the words of four numbers at once, and concatenate the four kinds of numbers."""
    quads = torch.arange((size + 3) // 4, device=key.device)[None, :]
    words = philox((draw[:, None], quads, owner[:, None], torch.zeros_like(quads)), key)
    numbers = [number for pair in (words[:2], words[2:]) for number in _box_muller(*pair)]
    return torch.cat(numbers, dim=1)[:, :size]


def _number_by_number(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Return the same numbers, each drawn separately.

    The GPU compiler makes one expression per output number. For a concatenation it would draw all words for
    each of the four parts: four times the work.
    """
    place = torch.arange(size, device=key.device)[None, :]
    quarter = (size + 3) // 4
    kind, quads = place // quarter, place % quarter
    words = philox((draw[:, None], quads, owner[:, None], torch.zeros_like(quads)), key)
    cosine, sine = _box_muller(*(torch.where(kind < 2, words[i], words[i + 2]) for i in (0, 1)))
    return torch.where(kind % 2 == 0, cosine, sine)


def key_of(seed: int, device: torch.device) -> torch.Tensor:
    """Return a seed of up to 64 bits as the key's two words, without waiting for a GPU."""
    words = (seed & _WORD, (seed >> 32) & _WORD)
    return torch.stack([torch.full((), word, dtype=torch.int64, device=device) for word in words])


def _box_muller(radius_word: torch.Tensor, angle_word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    radius = torch.sqrt(-2 * torch.log((radius_word.float() + 0.5) * _UNIT))
    angle = angle_word.float() * (2 * math.pi * _UNIT)
    return radius * torch.cos(angle), radius * torch.sin(angle)
