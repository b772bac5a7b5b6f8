import re
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from torch_ctree.data import DataError, Example, scan
from torch_ctree.evaluation import TreeF1, balanced, left_branching, right_branching, spans, tree_f1


def tree(text: str) -> Tree:
    return Tree.fromstring(text)


def f1(found: str, gold: str) -> TreeF1:
    return tree_f1([(tree(found), tree(gold))])


def numbered(shape, first=0) -> tuple[Tree | str, int]:
    """Nested lists as a tree whose words are 0, 1, … → the tree and the first number not used."""
    if not isinstance(shape, list):
        return str(first), first + 1
    parts = []
    for part in shape:
        built, first = numbered(part, first)
        parts.append(built)
    return Tree("X", parts), first


def grown(shape) -> Tree:
    built, _ = numbered(shape if isinstance(shape, list) else [shape])
    assert isinstance(built, Tree)
    return built


@st.composite
def binary(draw, length: int) -> Tree:
    """A binary tree of so many words, by splitting anywhere."""

    def shape(n: int):
        if n == 1:
            return 0
        left = draw(st.integers(1, n - 1))
        return [shape(left), shape(n - left)]

    return grown(shape(length))


any_shape = st.recursive(st.just(0), lambda parts: st.lists(parts, min_size=1, max_size=4), max_leaves=12)
any_tree = any_shape.map(grown)  # unary chains and flat parts too
couples = st.integers(3, 9).flatmap(lambda n: st.tuples(binary(n), binary(n)))


def spans_by_text(found: Tree) -> set[tuple[int, int]]:
    """Of each bracket in the printed tree, the words left of where it opens and of where it closes."""
    text = " ".join(str(found).split())
    words = [match.start() for match in re.finditer(r"(?<!\()\b\w+", text)]
    result, opened = set(), []
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")":
            start = opened.pop()
            result.add(tuple(sum(word < place for word in words) for place in (start, at)))
    return {(start, end) for start, end in result if end - start >= 2 and (start, end) != (0, len(words))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S a)", set()),
        ("(S a b)", set()),
        ("(S (A a) (B b))", set()),
        ("(S a b c)", set()),
        ("(S (A a b) c)", {(0, 2)}),
        ("(S a (A b c))", {(1, 3)}),
        ("(S (A a (B b c)) d)", {(0, 3), (1, 3)}),
        ("(S (A a b) (B c d))", {(0, 2), (2, 4)}),
        ("(S (A a b c) d)", {(0, 3)}),
        ("(S (A (B (C a b))) c)", {(0, 2)}),  # a chain counts once
        ("(TOP (S (S (A a b) c)))", {(0, 2)}),  # and at the top not at all
        ("(S (A) (B a b) (C) c)", {(0, 2)}),  # nodes without words
        ("(S (A a a) a)", {(0, 2)}),
    ],
)
def test_spans_by_hand(text, expected):
    assert spans(tree(text)) == expected == spans_by_text(tree(text))


@given(any_tree)
def test_spans_of_any_tree(found):
    assert spans(found) == spans_by_text(found)


@given(st.integers(2, 12).flatmap(binary))
def test_a_binary_tree_has_a_span_for_every_inner_vertex_but_the_root(found):
    assert len(spans(found)) == len(found.leaves()) - 2
    assert spans(found) == spans_by_text(found)


@given(any_tree)
def test_a_tree_agrees_with_itself(found):
    if len(found.leaves()) < 3:
        with pytest.raises(DataError, match="fewer than 3 words"):
            tree_f1([(found, found)])
    else:
        assert tree_f1([(found, found)]) == TreeF1(1.0, 1.0, 1.0, 1.0, sentences=1, left_out=0)


@given(st.lists(couples, min_size=1, max_size=4))
def test_swapping_the_trees_swaps_precision_and_recall(pairs):
    there = tree_f1(pairs)
    back = tree_f1([(gold, found) for found, gold in pairs])
    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert (there.sentence_f1, there.corpus_f1) == (back.sentence_f1, back.corpus_f1)


@given(st.lists(couples, min_size=1, max_size=4))
def test_of_binary_trees_all_numbers_are_the_share_of_equal_spans(pairs):
    """Both have as many spans, so that precision, recall and F1 are one."""
    shared = [len(spans_by_text(found) & spans_by_text(gold)) for found, gold in pairs]
    lengths = [len(gold.leaves()) - 2 for _, gold in pairs]
    result = tree_f1(pairs)
    assert result.precision == result.recall == result.corpus_f1 == sum(shared) / sum(lengths)
    assert result.sentence_f1 == pytest.approx(sum(a / b for a, b in zip(shared, lengths, strict=True)) / len(pairs))


def with_same_words(shapes) -> tuple[Tree, Tree]:
    """Two trees, the shorter made as long as the other by words at its top."""
    found, gold = map(grown, shapes)
    n = max(len(found.leaves()), len(gold.leaves()), 3)
    for one in (found, gold):
        one.extend(map(str, range(len(one.leaves()), n)))
    return found, gold


@given(st.lists(st.tuples(any_shape, any_shape).map(with_same_words), min_size=1, max_size=4))
def test_f1_is_the_harmonic_mean(pairs):
    result = tree_f1(pairs)
    assert all(0 <= number <= 1 for number in astuple(result)[:4])
    if result.precision and result.recall:
        assert result.corpus_f1 == pytest.approx(2 / (1 / result.precision + 1 / result.recall))
    else:
        assert result.corpus_f1 == 0
    assert result.sentence_f1 == pytest.approx(sum(tree_f1([pair]).corpus_f1 for pair in pairs) / len(pairs))


def test_by_hand():
    result = f1("(S (A (B a b) c) d)", "(S (A a b c) d)")
    assert (result.precision, result.recall) == (1 / 2, 1)
    assert result.corpus_f1 == result.sentence_f1 == pytest.approx(2 / 3)


def test_labels_and_chains_do_not_matter():
    assert f1("(· (· a b) c)", "(TOP (S (NP (X (D a) (N b))) (V c)))").corpus_f1 == 1


def test_sentences_and_brackets_weigh_differently():
    right = tree("(S (A a b) c)")
    wrong = right_branching(list("abcde")), left_branching(list("abcde"))
    result = tree_f1([(right, right), wrong])  # 1 of 1, and 0 of 3
    assert (result.sentence_f1, result.corpus_f1, result.sentences) == (1 / 2, 1 / 4, 2)


def test_flat_trees():
    flat, deep = "(S a b c)", "(S (A a b) c)"
    assert f1(flat, flat) == TreeF1(1, 1, 1, 1, 1, 0)
    assert f1(deep, flat) == f1(flat, deep) == TreeF1(0, 0, 0, 0, 1, 0)


def test_short_sentences_are_left_out():
    pair = tree("(S a (A b c))"), tree("(S (A a b) c)")
    short = [(tree(text), tree(text)) for text in ("(S a)", "(S a b)", "(S (A a) b)")]
    assert tree_f1([*short, pair]) == TreeF1(0, 0, 0, 0, sentences=1, left_out=3)


def test_pairs_may_come_one_by_one():
    assert tree_f1((one, one) for one in [tree("(S a (A b c))")]).sentences == 1


@pytest.mark.parametrize(
    ("found", "gold", "said"),
    [
        ("(S a (A b c))", "(S (A a x) c)", "word 2 is 'b' in the tree found and 'x' in the gold tree"),
        ("(S a b)", "(S a b c)", "word 3 is no word in the tree found and 'c' in the gold tree"),
        ("(S (A a b) c)", "(S a)", "word 2 is 'b' in the tree found and no word in the gold tree"),
        ("(S b)", "(S a)", "word 1 is 'b' in the tree found and 'a' in the gold tree"),  # short ones are checked too
    ],
)
def test_trees_of_different_sentences(found, gold, said):
    same = tree("(S a (A b c))")
    with pytest.raises(DataError) as caught:
        tree_f1([(same, same), (tree(found), tree(gold))])
    assert str(caught.value) == f"pairs[1]: {said}; expected the same words"


def test_nothing_to_compare():
    with pytest.raises(DataError, match=r"^pairs: got none; expected one or more with 3 words at least$"):
        tree_f1([])
    two = tree("(S a b)")
    with pytest.raises(DataError, match=r"^pairs: got 2 pairs with fewer than 3 words; expected one or more"):
        tree_f1([(two, two), (two, two)])


@pytest.mark.parametrize("n", range(1, 20))
def test_simple_trees_by_their_spans(n):
    words = [f"w{i}" for i in range(n)]
    for make in (right_branching, left_branching, balanced):
        made = make(words)
        assert made.leaves() == words
        assert len(spans(made)) == max(0, n - 2)  # binary
        assert {part.label() for part in made.subtrees()} == {"·"}
    assert spans(right_branching(words)) == {(i, n) for i in range(1, n - 1)}
    assert spans(left_branching(words)) == {(0, i) for i in range(2, n)}


@pytest.mark.parametrize("n", range(2, 40))
def test_halves_differ_by_one_word_at_most(n):
    made = balanced([str(i) for i in range(n)])
    for part in made.subtrees():
        left, right = (len(child.leaves()) if isinstance(child, Tree) else 1 for child in part)
        assert left - right in (0, 1)
    assert made.height() == 1 + (n - 1).bit_length()


@pytest.mark.parametrize("make", [right_branching, left_branching, balanced])
def test_words_that_make_no_tree(make):
    assert make(["a"]) == tree("(· a)")
    assert make(("a", "b")) == tree("(· a b)")
    with pytest.raises(DataError, match=r"^words: got none; expected one or more$"):
        make([])
    with pytest.raises(DataError, match=r"^words: got the string 'the cat'; expected several strings"):
        make("the cat")


def test_trees_deeper_than_recursion_goes():
    words = [str(i) for i in range(3000)]
    right, left = right_branching(words), left_branching(words)
    assert tree_f1([(right, right)]).corpus_f1 == 1
    assert tree_f1([(right, left)]).corpus_f1 == 0


def test_gold_trees_of_scan():
    gold = scan.gold(Example("jump twice after walk", "WALK JUMP JUMP"))
    assert tree_f1([(right_branching(gold.target.leaves()), gold.target)]).corpus_f1 == 1
    assert tree_f1([(left_branching(gold.source.leaves()), gold.source)]).recall == 1 / 2
