"""Damage as disks, networks and editors do it: the same for the same random generator."""

import json
import re
from typing import Any

import numpy as np


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Change, cut out, double or insert a few bytes, or write another number where there is one."""
    changed = bytearray(content)
    for _ in range(1 if random.random() < 0.6 else int(random.integers(2, 6))):
        place = int(random.integers(0, len(changed) + 1))
        match random.integers(0, 8):
            case 0 | 1 | 2 if place < len(changed):
                changed[place] ^= 1 << int(random.integers(0, 8))
            case 3 if place < len(changed):
                changed[place] = random.integers(0, 256)
            case 4:
                del changed[place : place + int(random.integers(1, 20))]
            case 5:
                changed[place:place] = changed[place : place + int(random.integers(1, 20))]
            case 6 if random.random() < 0.3:
                del changed[place:]
            case 7:
                _change_a_number(changed, random)
            case _:
                changed[place:place] = random.bytes(int(random.integers(1, 8)))
    return bytes(changed)


_NUMBERS = (b"0", b"-1", b"1e308", b"True", b"9" * 25, b"0.5", b"null", b"[]")


def _change_a_number(changed: bytearray, random: np.random.Generator) -> None:
    found = [match.span() for match in re.finditer(rb"\d+", bytes(changed[:20_000]))]
    if found:
        start, end = found[int(random.integers(0, len(found)))]
        changed[start:end] = _NUMBERS[int(random.integers(0, len(_NUMBERS)))]


_VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1e308, 0.5, "", "x", [], [[]], {}, {"x": 1})


def edited(value: Any, random: np.random.Generator) -> Any:
    """Return JSON in which one value, somewhere, is another one or missing."""
    copy = json.loads(json.dumps(value))
    place, parent, key = copy, None, None
    while isinstance(place, dict | list) and place and (parent is None or random.random() < 0.8):
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        parent, key = place, keys[int(random.integers(0, len(keys)))]
        place = parent[key]
    if parent is None:
        return copy
    if random.random() < 0.2:
        del parent[key]
    else:
        parent[key] = _VALUES[int(random.integers(0, len(_VALUES)))]
    return copy
