import math

import pytest
import torch

from torch_ctree import Derivation, LatentTree


def derivation():
    return Derivation(
        tokens=torch.tensor([[0, 1, 2], [3, 9, 9], [2, 2, 9]]),
        lengths=torch.tensor([3, 1, 2]),
        vertices=torch.tensor([[3, 4, 2], [0, -1, -1], [1, 2, -1]]),
        log_prob=torch.tensor([-1.0, -2.0, -3.0]),
    )


@pytest.mark.parametrize(
    "vocabulary",
    [["a", "b", "c", "d"], {0: "a", 1: "b", 2: "c", 3: "d"}, "abcd".__getitem__],
    ids=["list", "dict", "call"],
)
def test_trees(vocabulary):
    trees = derivation().trees(vocabulary)
    assert [str(tree) for tree in trees] == ["(· (· a b) c)", "(· d)", "(· c c)"]
    assert trees[0].leaves() == ["a", "b", "c"]


def test_trees_without_a_vocabulary():
    assert [tree.leaves() for tree in derivation().trees()] == [["0", "1", "2"], ["3"], ["2", "2"]]


def test_indexing_the_batch():
    assert derivation()[1].trees()[0].leaves() == ["3"]
    assert derivation()[1:].lengths.tolist() == [1, 2]
    assert derivation()[torch.tensor([True, False, True])].log_prob.tolist() == [-1, -3]


def test_trees_follow_the_flattened_batch():
    dist = LatentTree(torch.randn(2, 3, 15), torch.randn(2, 3, 15, 4))
    found = dist.sample((5,))
    trees = found.trees()
    assert len(trees) == 30
    sentence = found[4, 1, 2]
    assert trees[-1].leaves() == [str(token) for token in sentence.tokens[: sentence.lengths].tolist()]
    assert [len(tree.leaves()) for tree in trees] == found.lengths.flatten().tolist()


def test_a_sentence_without_a_tree():
    dist = LatentTree(torch.full((3,), -math.inf), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="sentence 0 has no tree: its log_prob is -inf"):
        dist.argmax(1).trees()
