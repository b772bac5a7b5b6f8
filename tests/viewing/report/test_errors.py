import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.evaluation import is_exact
from torch_ctree.viewing.report.errors import KINDS, confusions, grouped, kind_of, once

from .folders import answer

WORDS = st.lists(st.sampled_from("ABC"), max_size=7).map(" ".join)


@pytest.mark.parametrize(
    ("output", "target", "kind"),
    [
        ("", "A", "no answer"),
        ("A", "A A", "repeated too seldom"),
        ("A B C", "A B A B C", "repeated too seldom"),
        ("A A A", "A A", "repeated too often"),
        ("A B A B A B", "A B", "repeated too often"),
        ("A B", "A B C", "stopped too early"),
        ("A B C", "A B", "went on too long"),
        ("B A C", "A B C", "another order"),
        ("A A B", "A B A", "another order"),
        ("A B B", "A B A", "one word wrong"),
        ("C", "A", "one word wrong"),
        ("A A B", "A B B", "one word wrong"),  # too often and too seldom at once
        ("B C A A", "A B C", "wrong first word"),
        ("B C", "A B C", "wrong first word"),
        ("A B C", "A C D", "some words wrong"),
        ("A C", "A B C", "too short"),
        ("A B C C", "A D C", "too long"),
        ("A", "", "went on too long"),
    ],
)
def test_what_is_wrong(output, target, kind):
    assert kind_of(output.split(), target.split()).name == kind


def test_a_phrase_is_written_once():
    assert once([]) == []
    assert once(["A", "A", "A", "B", "B", "A"]) == ["A", "B", "A"]
    assert once(["A", "B", "C", "A", "B", "C", "A", "B", "C"]) == ["A", "B", "C"]
    assert once(["A", "A", "B", "A", "A", "B"]) == ["A", "B"]  # A twice, then both
    long = [str(n) for n in range(17)]
    assert once(long * 2) == long * 2  # longer than phrases are


@given(st.lists(st.sampled_from("AB"), max_size=12))
def test_repeating_all_of_it_changes_nothing(words):
    assert once(words + words) == once(words)
    assert once(once(words)) == once(words)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=8))
def test_every_wrong_answer_is_of_one_kind(pairs):
    some = [answer(output, target, row=n) for n, (output, target) in enumerate(pairs)]
    found = grouped(some)
    rows = [one.row for group in found for one in group.predictions]
    assert sorted(rows) == [one.row for one in some if not is_exact(one)]
    assert len({group.kind.name for group in found}) == len(found)
    assert all(group.kind in KINDS and group.predictions for group in found)
    sizes = [len(group.predictions) for group in found]
    assert sizes == sorted(sizes, reverse=True)


@given(WORDS, WORDS)
def test_no_answer_is_of_no_kind(output, target):
    if output != target:
        assert any(kind.fits(output.split(), target.split()) for kind in KINDS)


def test_the_example_is_the_shortest():
    some = [answer("A B D", "A B C", row=0), answer("B", "A", row=1), answer("C", "A", row=2)]
    (group,) = grouped(some)
    assert group.example.row == 1


def test_which_word_for_which():
    some = [answer("A C", "A B"), answer("C C", "A B"), answer("A", "A B"), answer("A B", "A B")]
    assert confusions(some) == {("B", "C"): 2, ("A", "C"): 1}
    assert grouped([some[-1]]) == []
