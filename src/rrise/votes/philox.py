"""Counter-based random numbers: each number is a function of its position.

There is no state: any part of them can be drawn anywhere, in any order.

Philox4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) turns a 64-bit key and a
128-bit counter into four 32-bit words. Box–Muller turns each pair of words into two normal numbers. The code
uses torch operators only, so it runs on every device and inside compiled functions; outside of these on a
CPU, `philox_cpu` draws the same words faster.
"""

import math
from typing import Any

import numpy as np
import torch

from rrise.votes.philox_cpu import KEY_STEPS, MULTIPLIERS, ROUNDS, WORD, words_of

_UNIT = 2.0**-32

_CHUNK = 65_536
"""Groups of four numbers that eager mode draws at once on a CPU: few calls, for which threads wait for each
other, and all near a core's cache."""

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def philox(counter: Words, key: torch.Tensor) -> Words:
    """Return the four words of Philox4x32-10; words are int64 tensors that hold 32 bits.

    The words of the counter may have different shapes that broadcast. What depends on one of them alone is
    then computed once.
    """
    first, second, third, fourth = counter
    low: Any = key[0]
    high: Any = key[1]
    for _ in range(ROUNDS):
        left_high, left_low = _product(first, MULTIPLIERS[0])
        right_high, right_low = _product(third, MULTIPLIERS[1])
        first = (right_high ^ second).bitwise_xor_(low).bitwise_and_(WORD)
        third = (left_high ^ fourth).bitwise_xor_(high).bitwise_and_(WORD)
        second, fourth = right_low, left_low
        low, high = (low + KEY_STEPS[0]) & WORD, (high + KEY_STEPS[1]) & WORD
    return first, second & WORD, third, fourth & WORD


def _product(word: torch.Tensor, multiplier: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and the low word of a 64-bit product; further bits of both mean nothing.

    Compiled to C++ for a CPU, a product that overflows int64 is undefined, and does come out wrong: there it
    is assembled from halves. Elsewhere it wraps around, as it should.
    """
    if word.device.type == "cuda" or not torch.compiler.is_compiling():
        product = word * multiplier
        return product >> 32, product
    upper, lower = (word >> 16) * multiplier, (word & 0xFFFF) * multiplier
    return (upper + (lower >> 16)) >> 16, ((upper & 0xFFFF) << 16) + lower


def standard_normal(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Return `[samples, size]` independent N(0, 1) numbers in float32.

    Row i depends only on the key (two 32-bit words), `draw[i]` and `owner[i]`: the same three give the same
    row. The numbers reach 6.7 standard deviations; a share of 2e-11 of the distribution lies beyond.
    """
    if torch.compiler.is_compiling():
        drawn = _number_by_number if key.device.type == "cuda" else _four_by_four
        return drawn(key, draw, owner, size)
    if key.device.type != "cpu":
        return _four_by_four(key, draw, owner, size)
    return _chunk_by_chunk(key, draw, owner, size)


def _chunk_by_chunk(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Draw the numbers of a few rows at a time, in the cache of one core."""
    width = 4 * ((size + 3) // 4)
    found, rows = torch.empty(len(draw), width, dtype=torch.float32), max(1, 4 * _CHUNK // max(4, width))
    draws, owners = (one.numpy().view(np.uint64) for one in torch.broadcast_tensors(draw, owner))
    for first in range(0, len(found), rows):
        part = slice(first, first + rows)
        drawn = words_of(draws[part], owners[part], width // 4, key.numpy().view(np.uint64))
        radius_words, angle_words = (torch.from_numpy(words.view(np.int64)) for words in drawn)
        for which, place in enumerate(found[part].chunk(2, dim=1)):
            cosine, sine = place.chunk(2, dim=1)
            _box_muller(radius_words[which], angle_words[which], (cosine, sine))
    return found[:, :size]


def _four_by_four(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Draw the words of four numbers at once, and concatenate the four kinds of numbers."""
    return torch.cat(_quarters(key, draw, owner, size), dim=1)[:, :size]


def _quarters(
    key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int
) -> tuple[torch.Tensor, ...]:
    """Return the numbers in four parts, each with a quarter of every row."""
    quads = torch.arange((size + 3) // 4, device=draw.device)[None, :]
    words = philox((draw[:, None], quads, owner[:, None], quads.new_zeros(1, 1)), key)
    return *_box_muller(*words[:2]), *_box_muller(*words[2:])


def _number_by_number(key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
    """Return the same numbers, each drawn separately.

    The GPU compiler makes one expression per output number. For a concatenation it would draw all words for
    each of the four parts: four times the work.
    """
    place = torch.arange(size, device=key.device)[None, :]
    quarter = (size + 3) // 4
    kind, quads = place // quarter, place % quarter
    words = philox((draw[:, None], quads, owner[:, None], quads.new_zeros(1, 1)), key)
    radius_word, angle_word = (torch.where(kind < 2, words[i], words[i + 2]) for i in (0, 1))
    cosine, sine = _box_muller(radius_word, angle_word)
    return torch.where(kind % 2 == 0, cosine, sine)


def key_of(seed: int, device: torch.device) -> torch.Tensor:
    """Return a seed of up to 64 bits as the key's two words, without waiting for a GPU."""
    words = (seed & WORD, (seed >> 32) & WORD)
    return torch.stack([torch.full((), word, dtype=torch.int64, device=device) for word in words])


def _box_muller(
    radius_word: torch.Tensor,
    angle_word: torch.Tensor,
    out: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None),
) -> tuple[torch.Tensor, torch.Tensor]:
    radius = radius_word.float().add_(0.5).mul_(_UNIT).log_().mul_(-2).sqrt_()
    angle = angle_word.float().mul_(2 * math.pi * _UNIT)
    return torch.mul(torch.cos(angle), radius, out=out[0]), torch.mul(torch.sin(angle), radius, out=out[1])
