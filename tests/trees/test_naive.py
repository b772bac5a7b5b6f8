import math

import pytest
import torch

from torch_ctree.trees import naive


def test_number_of_all_trees():
    # t(D) = 1 + t(D − 1)²: a leaf, or any two trees one level shallower.
    assert [len(list(naive.trees(depth))) for depth in range(5)] == [1, 2, 5, 26, 677]


@pytest.mark.parametrize("depth", range(5))
def test_count_agrees_with_enumeration(depth):
    for leaves in range(1, 2**depth + 2):
        assert naive.count(depth, leaves) == len(naive.fitting(depth, leaves))


def test_count_is_catalan_where_the_depth_does_not_bind():
    for depth in range(8):
        for n in range(1, depth + 2):
            assert naive.count(depth, n) == math.comb(2 * (n - 1), n - 1) // n
        assert naive.count(depth, depth + 2) < math.comb(2 * (depth + 1), depth + 1) // (depth + 2)


def test_the_papers_worked_example():
    # Two trees with three leaves at depth 2 (Fig. 2): leaves 1, 3, 6 and 2, 5, 7 in-order, counted from 1.
    logits = torch.randn(7, dtype=torch.double)
    leaf = torch.sigmoid(logits)
    assert naive.fitting(2, 3) == [(1, 5, 6), (3, 4, 2)]
    assert naive.log_prior(logits, (3, 4, 2)) == pytest.approx(((1 - leaf[0]) * (1 - leaf[1]) * leaf[2]).log().item())
    assert naive.log_prior(logits, (1, 5, 6)) == pytest.approx(((1 - leaf[0]) * (1 - leaf[2]) * leaf[1]).log().item())


def test_posterior_sums_to_one_and_is_empty_for_the_impossible():
    assert sum(naive.posterior(torch.randn(5, 15)).values()) == pytest.approx(1)
    assert naive.posterior(torch.full((2, 7), -math.inf)) == {}
    assert naive.posterior(torch.randn(5, 7)) == {}
    assert naive.log_likelihood(torch.randn(5, 7)) == -math.inf
