import math

import pytest

from torch_ctree.viewing.report.examples import chosen, compared, example, of

from .folders import SOME, answer
from .markup import Page


def titles(predictions):
    return {group.title: [one.row for one in group.predictions] for group in chosen(predictions)}


def test_the_best_and_the_worst():
    right = [answer("A", "A", -n / 10, n) for n in range(10)]
    wrong = [answer("B", "A", -n / 10, 10 + n) for n in range(9)]
    assert titles([*reversed(wrong), *right]) == {
        "Wrong, and most certain of it": [10, 11, 12, 13, 14, 15],
        "Right, and most certain": [0, 1, 2],
        "Right, and least certain": [9, 8, 7],
    }


@pytest.mark.parametrize("number", range(8))
def test_no_answer_is_shown_twice(number):
    found = titles([answer("A", "A", -n, n) for n in range(number)])
    rows = [row for some in found.values() for row in some]
    assert len(rows) == len(set(rows)) == min(number, 6)
    assert all(found.values())


def test_all_wrong_or_not_known_how_certain():
    assert titles([answer("B", "A", math.nan, 0), answer("B", "A", -math.inf, 1), answer("B", "A", -9, 2)]) == {
        "Wrong, and most certain of it": [2, 0, 1]
    }
    assert titles([]) == {}


def test_words_that_differ_are_marked():
    said, expected = compared(["A", "C", "D"], ["A", "B", "D", "E"])
    assert said == '<bdi>A <mark class="wrong">C</mark> D</bdi>'
    assert expected == '<bdi>A <mark class="lost">B</mark> D <mark class="lost">E</mark></bdi>'
    said, expected = compared([], ["<"])
    assert "nothing" in said
    assert "<mark" in expected
    assert "&lt;" in expected


def test_an_answer_with_its_trees():
    made = Page(of(SOME[1]))
    assert made.count("svg") == 2
    assert "tree of the answer" in made.said
    assert "tree of the target" in made.said
    assert "0.779 (log −0.250)" in made.said
    right = Page(of(SOME[0]))
    assert right.count("svg") == 1
    assert right.count("mark") == 0
    assert "target" not in right.said
    assert "probability" not in Page(of(SOME[3])).said


def test_without_trees():
    made = Page(example("s", "A", "B", None))
    assert made.count("svg") == made.count("figure") == 0


def test_trees_that_are_none_are_shown_as_they_are():
    made = Page(example("s", "A", "B", "(· A <b>", "A"))
    assert made.count("svg") == 0
    assert "(· A <b>" in made.said


def test_large_trees_are_folded():
    words = " ".join(["A"] * 16)
    tree = "A"
    for _ in range(4):
        tree = f"(· {tree} {tree})"
    made = Page(example("s", words, words, tree))
    assert "repeated parts once" in made.said
    assert "×2" in made.said


def test_hostile_words():
    text = "<script>alert(1)</script> \u202ex & \0"
    made = Page(example(text, text, f"{text} y", "(· <script> &)", f"(· {'w' * 500} שלום)", -math.inf))
    assert "<script>alert(1)</script>" in made.said
    assert "\u202e" not in made.said


def test_trees_that_are_too_deep_to_draw():
    tree = "A"
    for n in range(2000):
        tree = f"(· {tree} B{n})"
    made = Page(example("s", "A", "B", tree))
    assert made.count("svg") == 0
    assert "B1999" in made.said


def test_words_with_brackets_are_drawn_as_they_are():
    made = Page(example("s", "( a )", "( a )", "(· -LRB- (· a -RRB-))"))
    assert "LRB" not in made.said
    assert made.said.count("( a )") == 2  # the answer, and its tree
