import pytest
from hypothesis import given
from nltk import Tree

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, as_vertex, brackets, unspelled

from .trees import DEEP, MANY, balanced, chain, trees


def read(text: str) -> Vertex:
    return as_vertex(Tree.fromstring(text, read_node=unspelled, read_leaf=unspelled))


def bare(tree: Vertex) -> Vertex:
    """Without what brackets do not say."""
    return as_vertex(tree.to_nltk())


@given(tree=trees)
def test_read_back_by_nltk(tree):
    assert read(brackets(tree)) == bare(tree)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("walk", "(· walk)"),
        (Vertex(""), "(· -EMPTY-)"),
        (Tree("S", [Tree("NP", ["the", "dog"]), "barks"]), "(S (NP the dog) barks)"),
        (Vertex(children=(Vertex("("), Vertex("a b)"))), "(· -LRB- a-U0020-b-RRB-)"),
        (Vertex(children=(Vertex("\ud800"),)), "(· -UD800-)"),
    ],
)
def test_by_hand(tree, expected):
    assert brackets(tree) == expected


def test_what_is_long_takes_several_lines():
    words = ["I_TURN_LEFT", "I_JUMP"]
    tree = Vertex(children=tuple(balanced(words * 2) for _ in range(2)))
    part = "(· (· I_TURN_LEFT I_JUMP) (· I_TURN_LEFT I_JUMP))"
    assert brackets(tree) == f"(·\n  {part}\n  {part})"
    assert max(map(len, brackets(balanced(MANY)).splitlines())) <= 90


def test_folded():
    assert brackets(balanced(["a", "a"]), Look(fold=True)) == "(×2 a)"


def test_any_depth():
    """Deeper than nltk reads."""
    text = brackets(chain(DEEP))
    assert text.count("(") == text.count(")") == len(DEEP) - 1
    assert [word.rstrip(")") for word in text.split() if word != "(·"] == DEEP


@pytest.mark.parametrize(
    "word", ["-LRB-", "-EMPTY-", "-U0041-", "-U0041(", "-UFFFFFF-", "-U10FFFF-", "a-b", "-", "\U0010ffff"]
)
def test_words_that_look_like_brackets(word):
    tree = Vertex(children=(Vertex(word), Vertex("x")), label=word)
    assert read(brackets(tree)) == tree


def test_what_is_no_character_stays():
    assert unspelled("-UFFFFFF-") == "-UFFFFFF-"
