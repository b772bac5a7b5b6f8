from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError
from torch_ctree.evaluation import Prediction, Share, by_length, exact_match, first_word, token_accuracy


def answers(*pairs) -> list[Prediction]:
    """Predictions with these (output, target)."""
    return [Prediction("test", row, "source", target, output, 0.0) for row, (output, target) in enumerate(pairs)]


SOME = answers(("a b c", "a b c"), ("a b", "a c"), ("a b c", "a b"), ("b a", "a b"), ("a", "a"))


def test_by_hand():
    assert exact_match(SOME) == 2 / 5
    assert first_word(SOME) == 4 / 5
    assert token_accuracy(SOME) == (3 + 1 + 2 + 0 + 1) / (3 + 2 + 3 + 2 + 1)
    assert by_length(SOME) == {1: Share(1, 1), 2: Share(0, 3), 3: Share(1, 1)}
    assert by_length(SOME)[2].accuracy == 0
    assert Share(3, 4).accuracy == 0.75


def test_all_right_and_all_wrong():
    for pair, expected in [(("a b", "a b"), 1), (("b a c", "a b"), 0)]:
        one = answers(pair)
        assert exact_match(one) == first_word(one) == token_accuracy(one) == by_length(one)[2].accuracy == expected


def test_the_amount_of_white_space_does_not_matter():
    one = answers((" a\tb  c\n", "a b c"))
    assert exact_match(one) == first_word(one) == token_accuracy(one) == 1
    assert list(by_length(one)) == [3]


def test_no_answer():
    one = answers(("", "a b"))
    assert exact_match(one) == first_word(one) == token_accuracy(one) == 0


def test_nothing_expected():
    assert exact_match(answers(("", ""))) == first_word(answers(("", ""))) == token_accuracy(answers(("", ""))) == 1
    assert exact_match(answers(("a", ""))) == first_word(answers(("a", ""))) == token_accuracy(answers(("a", ""))) == 0
    assert by_length(answers(("a", ""))) == {0: Share(0, 1)}


def test_too_long_costs_as_much_as_too_short():
    assert token_accuracy(answers(("a a a a", "a"))) == token_accuracy(answers(("a", "a a a a"))) == 1 / 4


def test_a_word_too_many_at_the_start_moves_all_others():
    assert token_accuracy(answers(("x a b c", "a b c"))) == 0


@pytest.mark.parametrize("metric", [exact_match, first_word, token_accuracy, by_length])
def test_no_predictions(metric):
    with pytest.raises(DataError, match=r"^predictions: got none; expected one or more$"):
        metric([])


sentences = st.lists(st.sampled_from("ab"), max_size=4)


@given(st.lists(st.tuples(sentences, sentences), min_size=1))
def test_against_padding_to_a_table(pairs):
    """Written out into columns, words that are not there being marks that match nothing."""
    table = []
    for output, target in pairs:
        columns = max(len(output), len(target))
        table.append(
            [*zip(output + ["-"] * (columns - len(output)), target + ["+"] * (columns - len(target)), strict=True)]
        )
    cells = [a == b for row in table for a, b in row]
    rows = [all(a == b for a, b in row) for row in table]
    predictions = answers(*((" ".join(output), " ".join(target)) for output, target in pairs))

    assert token_accuracy(predictions) == (float(Fraction(sum(cells), len(cells))) if cells else 1)
    assert exact_match(predictions) == float(Fraction(sum(rows), len(rows)))
    assert first_word(predictions) == sum(not row or row[0][0] == row[0][1] for row in table) / len(rows)
    shares = by_length(predictions)
    assert list(shares) == sorted({len(target) for _, target in pairs})
    for length, share in shares.items():
        mine = [right for right, (_, target) in zip(rows, pairs, strict=True) if len(target) == length]
        assert (share.right, share.total) == (sum(mine), len(mine))
