import pytest
from nltk import Tree

from torch_ctree.trees.vertex import Vertex, from_below

from ..viewing.trees import chain

SENTENCE = Tree.fromstring("(S (NP the dog) (VP barks))")


def test_there_and_back():
    vertex = Vertex.of(SENTENCE)
    assert vertex.to_nltk() == SENTENCE
    assert vertex.leaves == ("the", "dog", "barks")
    assert [part.label for part in vertex.walk() if part.children] == ["S", "NP", "VP"]


@pytest.mark.parametrize("tree", ["dog", Tree("·", ["dog"])])
def test_a_word_alone(tree):
    assert Vertex.of(tree).leaves == ("dog",)
    assert Vertex.of(tree).to_nltk() == Tree("·", ["dog"])


def test_no_tree_is_too_deep():
    deep = Vertex("word")
    for n in range(5000):
        deep = Vertex(children=(Vertex(str(n)), deep))
    assert len(deep.leaves) == 5001
    again = Vertex.of(deep.to_nltk())
    assert again.leaves == deep.leaves
    assert from_below(again, lambda _, below: 1 + max(below, default=0)) == 5001


def test_equal_and_shown_however_deep():
    one, other, third = (chain(["a"] * 2000), chain(["a"] * 2000), chain(["a"] * 1999 + ["b"]))
    assert one == other != third
    assert hash(one) == hash(other)
    assert repr(third).endswith("'b'" + 1999 * ")" + ">")


def test_equal_only_if_all_is():
    a, b = Vertex("a"), Vertex("b")
    assert repr(Vertex(children=(a, b), label="NP")) == "<Vertex (NP 'a' 'b')>"
    assert Vertex(children=(a, b)) != Vertex(children=(b, a))
    assert Vertex(children=(a, Vertex(children=(b,)))) != Vertex(children=(Vertex(children=(a,)), b))
    assert Vertex("a", emission=0.5) != a
    assert a != "a"
