import pytest
from hypothesis import given
from nltk import Tree

from torch_ctree.data import DataError
from torch_ctree.trees.vertex import Vertex, from_below
from torch_ctree.viewing import as_vertex, at
from torch_ctree.viewing.tree import preorder

from .trees import DEEP, chain, trees


def test_of_any_kind():
    tree = Tree("S", [Tree("NP", ["the", "dog"]), "barks", 7])
    assert as_vertex(tree).leaves == ("the", "dog", "barks", "7")
    assert as_vertex(Tree.fromstring("(S (NP the dog) barks)")) == Vertex.of(Tree.fromstring("(S (NP the dog) barks)"))
    assert as_vertex("walk") == Vertex("walk")
    vertex = Vertex("walk", emission=0.5)
    assert as_vertex(vertex) is vertex


@given(trees)
def test_paths(tree):
    spots = preorder(tree)
    assert [spot.vertex for spot in spots] == list(tree.walk())
    for n, spot in enumerate(spots):
        assert at(tree, spot.path) is spot.vertex
        assert spot.depth == (len(spot.path) + 1) // 2
        assert tuple(spots[child].vertex for child in spot.children) == spot.vertex.children
        assert all(spots[child].parent == n for child in spot.children)


@pytest.mark.parametrize("path", ["2", "0.0", "x", "-1", "0.", "²"])
def test_paths_to_nowhere(path):
    with pytest.raises(DataError, match="path: got "):
        at(Vertex(children=(Vertex("a"), Vertex("b"))), path)


def test_any_depth():
    tree = Tree("·", ["a"])
    for _ in range(1500):
        tree = Tree("·", ["a", tree])
    assert len(as_vertex(tree).leaves) == 1501
    assert len(preorder(chain(DEEP))) == 2 * len(DEEP) - 1
    assert from_below(chain(DEEP), lambda vertex, sizes: 1 + sum(sizes)) == 2 * len(DEEP) - 1
