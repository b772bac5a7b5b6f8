import pytest
from nltk import ParentedTree, Tree

from torch_ctree.data import scan
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import fold


def folded(text: str) -> str:
    return " ".join(str(fold(Tree.fromstring(text))).split())


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("(· a a)", "(×2 a)"),
        ("(· a b)", "(· a b)"),
        ("(· a)", "(· a)"),
        ("(· a (· a a))", "(×3 a)"),
        ("(· (· a a) a)", "(×3 a)"),
        ("(· (· a a) (· a a))", "(×2 (×2 a))"),
        ("(· (· a b) (· (· a b) (· a b)))", "(×3 (· a b))"),
        ("(· (· a b) (· b a))", "(· (· a b) (· b a))"),
        ("(· (· a a) b)", "(· (×2 a) b)"),
        ("(· (· a a) (· a (· a a)))", "(· (×2 a) (×3 a))"),  # in pairs one is left over
        ("(· (· (· a a) b) (· (· a a) b))", "(×2 (· (×2 a) b))"),
        ("(· a a a)", "(×3 a)"),
        ("(S (NP a b) (VP a b))", "(S (NP a b) (VP a b))"),
    ],
)
def test_by_hand(tree, expected):
    assert folded(tree) == expected


def test_a_word_alone():
    assert fold("walk") == "walk"
    assert fold(Vertex("walk")) == Vertex("walk")


def test_the_tree_itself_stays():
    tree = Tree.fromstring("(· (· a b) (· a b))")
    before = tree.copy(deep=True)
    fold(tree)
    assert tree == before


def unfolded(tree: Tree | str) -> list[str]:
    """The words that it stands for."""
    if isinstance(tree, str):
        return [tree]
    words = [word for part in tree for word in unfolded(part)]
    return int(tree.label()[1:]) * words if tree.label().startswith("×") else words


@pytest.mark.parametrize("n", range(0, 20_910, 997))
def test_no_word_is_lost(n):
    example = scan.everything()[n]
    tree = fold(scan.gold(example).target)
    assert unfolded(tree) == example.target.split()


@pytest.mark.parametrize("n", range(0, 20_910, 1997))
def test_of_vertices_as_of_trees(n):
    tree = scan.gold(scan.everything()[n]).target
    assert fold(Vertex.of(tree)) == Vertex.of(fold(tree))


def test_parts_are_equal_however_probable():
    tree = Vertex(children=(Vertex("a", emission=0.5), Vertex("a", emission=0.25)), confidence=0.75, split=0.5)
    kept = Vertex("a", emission=0.5)
    assert fold(tree) == Vertex(children=(kept,), label="×2", confidence=0.75, split=0.5)


def test_deep_trees():
    words = [Vertex(word) for word in "ab" * 1000]
    tree = words[-1]
    for word in reversed(words[:-1]):
        tree = Vertex(children=(word, tree))
    assert len(fold(tree).leaves) == 2000
    alike = Tree("·", ["a"])
    for _ in range(1500):
        alike = Tree("·", ["a", alike])
    assert str(fold(alike)) == "(×1501 (· a))" or str(fold(alike)) == "(×1501 a)"


@pytest.mark.parametrize("text", ["(S (NP a b) (VP (NP a b)))", "(S (VP (NP a b)) (NP a b))"])
def test_which_comes_first_does_not_matter(text):
    assert folded(text) == "(×2 (NP a b))"


def test_labels_without_anything_below_are_words():
    tree = Tree.fromstring("(S (A) (B))")
    assert fold(Vertex.of(tree)).leaves == ("A", "B")
    assert str(fold(ParentedTree.fromstring("(S (NP) (VP a))"))) == "(S (NP ) (VP a))"
