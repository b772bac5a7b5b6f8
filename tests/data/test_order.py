import numpy as np
import pytest

from torch_ctree.data.order import permutation, random_bits


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_is_a_permutation(n):
    assert sorted(permutation(n, 3).tolist()) == list(range(n))


def test_depends_on_the_whole_key_and_nothing_else():
    assert permutation(50, 1, 2).tolist() == permutation(50, 1, 2).tolist()
    others = [permutation(50, *key).tolist() for key in [(1,), (1, 2), (2, 1), (1, 3), (1, 2, 0)]]
    assert len(set(map(tuple, others))) == len(others)


def test_every_place_is_equally_likely():
    first = np.bincount([permutation(8, seed)[0] for seed in range(4000)], minlength=8)
    assert (abs(first - 500) < 5 * np.sqrt(500)).all()


def test_the_stream_never_changes():
    # Numbers copied from a run, on purpose: were they to move, every split and every batch of every run would.
    assert random_bits(0).random_raw(2).tolist() == [9441442522235856127, 17532960557476522086]
    assert permutation(10, 0, 1).tolist() == [9, 8, 5, 4, 0, 7, 2, 3, 6, 1]
