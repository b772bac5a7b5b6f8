"""Random orders that are the same on every machine and in every version of the libraries.

Only the raw bits of a NumPy bit generator are used: those are fixed for good, while ``shuffle`` and ``choice``, in
NumPy as in Python's own ``random``, may change from one version to the next.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Purpose(IntEnum):
    """What chance is for: each has streams of its own, whatever the seed. A number here never changes."""

    SIMPLE_SPLIT = 1
    TEST_SET = 2
    VALIDATION_SET = 3
    COMBINATION = 4
    QUESTIONS = 5
    ROWS_OF_AN_EPOCH = 6
    BATCHES_OF_AN_EPOCH = 7
    ROWS_TO_SHOW = 8
    FIRST_WEIGHTS = 9
    DROPOUT = 10
    RECOMBINED = 11
    EXCHANGED = 12
    LATENTS = 13


def random_bits(purpose: Purpose, *key: int) -> np.random.PCG64:
    """A stream of 64-bit numbers (``.random_raw(n)``) that depends on the purpose and the key alone.

    key: numbers of 0 or more, such as a seed and an epoch
    """
    # NumPy fills a key up with zeros, so that (1,) and (1, 0) would be the same: the length tells them apart.
    return np.random.PCG64(np.random.SeedSequence((purpose, len(key), *key)))


def permutation(n: int, purpose: Purpose, *key: int) -> NDArray[np.int64]:
    """(n,): the numbers 0 … n−1 in a random order that depends on the purpose and the key alone."""
    return np.argsort(random_bits(purpose, *key).random_raw(n), kind="stable")
