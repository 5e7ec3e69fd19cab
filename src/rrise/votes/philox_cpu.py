"""Philox4x32-10 on a CPU, outside compiled code: the words of `philox`, in fewer calls and less memory.

NumPy's operators write where they are told to, and know unsigned words. A call computes both halves of a
round, and all arrays of a chunk fit into a core's cache.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Words of 32 bits, each in 64 bits."""

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

_HALF, _WORD = np.uint64(32), np.uint64(WORD)
_MULTIPLIERS, _KEY_STEPS = np.array(MULTIPLIERS, np.uint64), np.array(KEY_STEPS, np.uint64)


def words_of(draw: Words, owner: Words, quads: int, key: Words) -> tuple[Words, Words]:
    """Return the words of the counters `(draw, quad, owner, 0)`, each `[samples, quads]`.

    The first array holds the first and the third word, the second array the second and the fourth. Until the
    third round some words depend on the sample alone, and are computed once for all its quads.
    """
    keys = (key + np.arange(ROUNDS, dtype=np.uint64)[:, None] * _KEY_STEPS) & _WORD
    words, others, products, uppers = (np.empty((2, len(draw), quads), np.uint64) for _ in range(4))
    left, right = draw[:, None] * _MULTIPLIERS[0], owner[:, None] * _MULTIPLIERS[1]
    np.bitwise_xor((right >> _HALF) ^ keys[0, 0], np.arange(quads, dtype=np.uint64), out=words[0])

    np.multiply(words[0], _MULTIPLIERS[0], out=others[1])
    right, before = ((left >> _HALF) ^ keys[0, 1]) * _MULTIPLIERS[1], right
    np.right_shift(others[1], _HALF, out=words[1])
    np.bitwise_xor(words[1], (left ^ keys[1, 1]) & _WORD, out=words[1])

    left = (((right >> _HALF) ^ before ^ keys[1, 0]) & _WORD) * _MULTIPLIERS[0]
    np.multiply(words[1], _MULTIPLIERS[1], out=others[0])
    np.right_shift(others[0], _HALF, out=words[0])
    np.bitwise_xor(words[0], (right ^ keys[2, 0]) & _WORD, out=words[0])
    np.bitwise_xor(others[1], (left >> _HALF) ^ keys[2, 1], out=words[1])
    np.bitwise_and(words[1], _WORD, out=words[1])
    others[1] = left

    for low_and_high in keys[3:, :, None, None]:
        np.multiply(words, _MULTIPLIERS[:, None, None], out=products)
        np.right_shift(products, _HALF, out=uppers)
        np.bitwise_xor(uppers[::-1], others, out=words)
        np.bitwise_xor(words, low_and_high, out=words)
        np.bitwise_and(words, _WORD, out=words)
        others, products = products[::-1], others
    return words, np.bitwise_and(others, _WORD, out=uppers)
