import numpy as np
import pytest
import torch

from torch_ctree.trees import naive
from torch_ctree.trees.topology import (
    brackets,
    depth_for_leaves,
    depth_for_vertices,
    leaves_from_mask,
    level,
    topology,
)

from ..measure import leaves, padded


@pytest.mark.parametrize("depth", range(6))
def test_children_halve_their_parents_interval(depth):
    tree = topology(depth)
    assert (tree.starts[0], tree.ends[0]) == (0, tree.positions)
    for v in range(tree.vertices // 2):
        left, right = 2 * v + 1, 2 * v + 2
        assert tree.starts[left] == tree.starts[v]
        assert tree.ends[left] == tree.starts[right]
        assert tree.ends[right] == tree.ends[v]
        assert tree.ends[left] - tree.starts[left] == tree.ends[right] - tree.starts[right]


@pytest.mark.parametrize("depth", range(5))
def test_leaf_sequences_are_exactly_the_chains_of_abutting_intervals(depth):
    tree = topology(depth)

    def chains(position):
        if position == tree.positions:
            yield ()
            return
        for v in range(tree.vertices):
            if tree.starts[v] == position:
                for rest in chains(int(tree.ends[v])):
                    yield (v, *rest)

    assert sorted(chains(0)) == sorted(naive.trees(depth))


@pytest.mark.parametrize("depth", range(5))
def test_ending_at_lists_the_vertices_of_each_end_deepest_first(depth):
    tree = topology(depth)
    for p in range(tree.positions + 1):
        listed = [v for v in tree.ending_at[p] if v >= 0]
        assert listed == sorted((v for v in range(tree.vertices) if tree.ends[v] == p), reverse=True)


def test_inorder_numbers_are_those_of_the_papers_figures():
    # Fig. 3: root 4, its children 2 and 6, the deepest level 1, 3, 5, 7; counted from 1 there.
    assert (topology(2).inorder + 1).tolist() == [4, 2, 6, 1, 3, 5, 7]


@pytest.mark.parametrize("depth", range(6))
def test_inorder_is_an_inorder_walk_and_heap_undoes_it(depth):
    tree = topology(depth)

    def walk(v):
        return [*walk(2 * v + 1), v, *walk(2 * v + 2)] if v < tree.vertices else []

    assert tree.heap.tolist() == walk(0)
    assert (tree.heap[tree.inorder] == np.arange(tree.vertices)).all()


def test_it_is_cached_and_cannot_be_edited():
    assert topology(3) is topology(3)
    assert topology(3).on(torch.device("cpu")) is topology(3).on(torch.device("cpu"))
    with pytest.raises(ValueError, match="read-only"):
        topology(3).starts[0] = 1


def test_tensors_made_in_inference_mode_can_be_used_for_training():
    with torch.inference_mode():
        starts = topology(11).on(torch.device("cpu")).starts  # depth 11 is in no other test: made here
    assert not starts.is_inference()


def test_negative_depth():
    with pytest.raises(ValueError, match=r"depth: got -1; expected 0 or more"):
        topology(-1)


def test_sizes():
    assert [depth_for_vertices(v) for v in (1, 3, 7, 511)] == [0, 1, 2, 8]
    assert [depth_for_vertices(v) for v in (-1, 0, 2, 4, 8, 510)] == [None] * 6
    assert [depth_for_leaves(n) for n in (1, 2, 3, 4, 5, 8, 9, 48)] == [0, 1, 2, 2, 3, 3, 4, 6]
    assert [level(d) for d in range(3)] == [slice(0, 1), slice(1, 3), slice(3, 7)]


@pytest.mark.parametrize("depth", range(4))
def test_leaves_from_mask_gives_back_every_tree(depth):
    vertices, lengths = padded(naive.trees(depth))
    mask = torch.zeros(len(vertices), topology(depth).vertices + 1, dtype=torch.bool)
    mask = mask.scatter(1, vertices.masked_fill(vertices < 0, topology(depth).vertices), True)[:, :-1]
    found, found_lengths = leaves_from_mask(mask)
    assert torch.equal(found, vertices)
    assert torch.equal(found_lengths, lengths)
    assert leaves(found) == list(naive.trees(depth))


def test_brackets():
    assert brackets([0]) == 0
    assert brackets([3, 4, 2]) == [[0, 1], 2]
    assert brackets([1, 5, 13, 14]) == [0, [1, [2, 3]]]


@pytest.mark.parametrize("vertices", [[1], [1, 1], [2, 1], [3, 4], [0, 0], [1, 2, 2], [3, 4, 5], [-1]])
def test_brackets_of_what_is_no_tree(vertices):
    with pytest.raises(ValueError, match="vertices: got"):
        brackets(vertices)


@pytest.mark.parametrize("depth", range(4))
def test_brackets_of_every_tree_keep_its_leaves_in_order(depth):
    def flat(tree):
        return [n for part in tree for n in flat(part)] if isinstance(tree, list) else [tree]

    shapes = [brackets(tree) for tree in naive.trees(depth)]
    assert all(flat(shape) == list(range(len(flat(shape)))) for shape in shapes)
    assert len({str(shape) for shape in shapes}) == len(shapes)
