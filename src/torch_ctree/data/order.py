"""Random orders that are the same on every machine and in every version of the libraries.

Only the raw bits of a NumPy bit generator are used: those are fixed for good, while ``shuffle`` and ``choice``, in
NumPy as in Python's own ``random``, may change from one version to the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_bits(*key: int) -> np.random.PCG64:
    """A stream of 64-bit numbers (``.random_raw(n)``) that depends on the key alone; its parts are 0 or more."""
    return np.random.PCG64(np.random.SeedSequence((len(key), *key)))  # else a trailing 0 would change nothing


def permutation(n: int, *key: int) -> NDArray[np.int64]:
    """(n,): the numbers 0 … n−1 in a random order that depends on the key alone."""
    return np.argsort(random_bits(*key).random_raw(n), kind="stable")
