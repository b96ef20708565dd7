"""Philox4x32-10 in Python integers, from its paper (Salmon et al., SC 2011), and the numbers that Triton makes."""

from __future__ import annotations

import math

import numpy as np

WORD = 0xFFFFFFFF
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)

#: Counter, key and result of `philox4x32 10` in Random123's kat_vectors.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The result: four words of 32 bits. `counter`: four words. `key`: two words."""
    for _ in range(10):
        first, second = (multiplier * counter[place] for multiplier, place in zip(MULTIPLIERS, (0, 2), strict=True))
        high = (second >> 32) ^ counter[1] ^ key[0], (first >> 32) ^ counter[3] ^ key[1]
        counter = (high[0], second & WORD, high[1], first & WORD)
        key = tuple((word + step) & WORD for word, step in zip(key, WEYL, strict=True))
    return counter


def words(seed: int, offset: int) -> tuple[int, ...]:
    """The four words for a seed and an offset.

    The two words of the seed are the key. The two words of the offset are the first words of the counter.
    """
    return philox((offset & WORD, (offset >> 32) & WORD, 0, 0), (seed & WORD, (seed >> 32) & WORD))


def signed(word: int) -> int:
    """A word of 32 bits as a signed integer."""
    return word - (1 << 32) if word >> 31 else word


def uniform(word: int) -> np.float32:
    """A number in [0, 1): the word as a signed integer, mirrored if negative, times a little less than 2^-31."""
    value = signed(word)
    return np.float32(-value - 1 if value < 0 else value) * np.float32(4.6566127342e-10)


def normal(first: int, second: int) -> float:
    """A normally distributed number, by the method of Box and Muller."""
    radius = math.sqrt(-2 * math.log(max(1e-7, float(uniform(first)))))
    return radius * math.cos(2 * math.pi * float(uniform(second)))


def uniform_as_eager(word: int) -> np.float32:
    """A number in (0, 1], as PyTorch's own kernels make it, and as Inductor makes it on request since torch 2.13."""
    return np.float32(1) - np.float32(float(np.float32(word)) * 2.0**-32 + 2.0**-33)


def integer_between(first: int, second: int, low: int, high: int) -> int:
    """An integer from `low` to `high` - 1, as Inductor makes it of 64 bits. `first`: the low word."""
    return ((second << 32) | first) % (high - low) + low
