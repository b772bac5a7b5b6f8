import numpy as np
import pytest

from torch_ctree.data.order import Purpose, permutation, random_bits

EPOCH = Purpose.ROWS_OF_AN_EPOCH


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_is_a_permutation(n):
    assert sorted(permutation(n, EPOCH, 3).tolist()) == list(range(n))


def test_depends_on_the_whole_key_and_nothing_else():
    assert permutation(50, EPOCH, 1, 2).tolist() == permutation(50, EPOCH, 1, 2).tolist()
    keys = [(1,), (1, 2), (2, 1), (1, 3), (1, 2, 0), (), (0,), (0, 0)]
    orders = {tuple(permutation(50, EPOCH, *key).tolist()) for key in keys}
    assert len(orders) == len(keys)


def test_no_two_purposes_share_a_stream():
    keys = [(), (0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (1, 1), (3, 1)]
    streams = {tuple(random_bits(purpose, *key).random_raw(2).tolist()) for purpose in Purpose for key in keys}
    assert len(streams) == len(Purpose) * len(keys)


def test_every_place_is_equally_likely():
    first = np.bincount([permutation(8, EPOCH, seed)[0] for seed in range(4000)], minlength=8)
    assert (abs(first - 500) < 5 * np.sqrt(500)).all()


def test_the_stream_never_changes():
    # Numbers copied from a run, on purpose: were they to move, every split and every batch of every run would.
    assert [purpose.value for purpose in Purpose] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert random_bits(EPOCH, 0).random_raw(2).tolist() == [10480549577923230703, 11624611599329879491]
    assert permutation(10, EPOCH, 0, 1).tolist() == [6, 2, 8, 3, 7, 1, 0, 4, 5, 9]
