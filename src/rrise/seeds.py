"""The one place where seeds are derived."""

import hashlib
import json


def derive_seed(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed for one named purpose, unrelated to the seeds of all other purposes.

    >>> derive_seed(100, "votes", "train", 0, 0) == derive_seed(100, "votes", "train", 0, 0)
    True
    >>> derive_seed(100, "votes", "train", 0, 1) == derive_seed(100, "votes", "train", 1, 0)
    False
    """
    digest = hashlib.blake2b(json.dumps([seed, *path]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
