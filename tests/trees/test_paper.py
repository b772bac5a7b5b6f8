import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.trees import naive, paper


@pytest.mark.parametrize("depth", range(5))
def test_successive_leaves_are_those_of_some_tree(depth):
    transitions = paper.successive_leaves(depth)
    trees = list(naive.trees(depth))
    assert transitions.successive == {pair for tree in trees for pair in itertools.pairwise(tree)}
    assert transitions.left_boundary == {tree[0] for tree in trees}
    assert transitions.right_boundary == {tree[-1] for tree in trees}


def test_successive_leaves_of_the_papers_figure():
    # Fig. 3, depth 2, in-order numbers from 1: 1→3, 5→7, and {2, 3} → {5, 6}.
    number = dict(enumerate([4, 2, 6, 1, 3, 5, 7]))
    found = {(number[a], number[b]) for a, b in paper.successive_leaves(2).successive}
    assert found == {(1, 3), (5, 7), (2, 5), (2, 6), (3, 5), (3, 6)}


@given(depth=st.integers(0, 3), scale=st.sampled_from([0.1, 1.0, 10.0]), seed=st.integers(0, 999))
def test_decode_joint_by_enumeration(depth, scale, seed):
    V = 2 ** (depth + 1) - 1
    scores = -scale * torch.rand(V, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    tree, score = paper.decode_joint(scores)
    every = {tree: sum(scores[v].item() for v in tree) for tree in naive.trees(depth)}
    assert score == pytest.approx(max(every.values()))
    assert every[tuple(tree)] == pytest.approx(score)


def test_decode_joint_where_nothing_is_possible():
    assert paper.decode_joint(torch.full((7,), -math.inf)) == ([], -math.inf)
