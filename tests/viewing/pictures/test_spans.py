import math

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon

from tests.viewing.pictures.looking import element, letters, said
from tests.viewing.pictures.test_table import posterior
from torch_ctree.data import DataError
from torch_ctree.trees import naive
from torch_ctree.viewing.look import colour
from torch_ctree.viewing.pictures import span_triangle
from torch_ctree.viewing.text import percent


def diamonds(axes: Axes) -> dict[tuple[int, int], Polygon]:
    """By their first and last word: what is below their left and right corners, down along the sides."""
    found = {}
    for patch in axes.patches:
        assert isinstance(patch, Polygon)
        (left, y), _, (right, _), _ = patch.get_xy()[:4].tolist()
        found[round(left - y), round(right + y) - 1] = patch
    return found


def test_spans_of_a_posterior_by_enumeration():
    found = posterior(4, depth=3, words=4)
    expected = naive.span_marginals(found.log_weights)
    (axes, _) = span_triangle(found.span_marginals().tolist(), list("abcd")).axes
    drawn = diamonds(axes)
    for i in range(4):
        for j in range(i + 1, 4):
            share = float(expected[i, j])
            assert ((i, j) in drawn) == (share >= 0.005)
            if share >= 0.005:
                shade = torch.tensor(drawn[i, j].get_facecolor()[:3])
                other = [int(colour(share)[n : n + 2], 16) / 255 for n in (1, 3, 5)]
                assert shade.tolist() == pytest.approx(other, abs=0.02)
    numbers = sorted(text for text in said(axes) if "%" in text)
    assert numbers == sorted(percent(float(expected[i, j])) for i, j in drawn)


def test_two_sides_that_are_alike():
    """The mirrored spans of the mirrored sentence are the mirrored picture."""
    spans = [[1, 0.25, 0, 1], [0, 1, 0.5, 0.75], [0, 0, 1, 0], [0, 0, 0, 1]]
    mirrored = [[spans[3 - j][3 - i] for j in range(4)] for i in range(4)]
    one, other = (diamonds(span_triangle(some, list("abcd")).axes[0]) for some in (spans, mirrored))
    assert {(3 - j, 3 - i): to_hex(patch.get_facecolor()) for (i, j), patch in one.items()} == {
        key: to_hex(patch.get_facecolor()) for key, patch in other.items()
    }
    assert set(one) == {(0, 1), (0, 3), (1, 2), (1, 3)}


def test_words_stand_below_their_places():
    (axes, _) = span_triangle([[1, 1], [0, 1]], ["$x$", "熊\x00"]).axes
    assert {text.get_text(): text.get_position()[0] for text in axes.texts} == {"$x$": 0.5, "熊\\x00": 1.5, "100%": 1}


@pytest.mark.parametrize("count", [48, 200])
def test_many_words_have_room(count):
    spans = [[float(j > i and (i + j) % 29 == 0) for j in range(count)] for i in range(count)]
    figure = span_triangle(spans, ["parole"] * count, width=4)
    assert figure.get_size_inches()[0] >= 0.15 * count
    assert len(diamonds(figure.axes[0])) == sum(map(sum, spans))
    assert not any("%" in text for text in said(figure.axes[0]))
    assert len([text for text in letters(figure) if text == "parole"]) == count


def test_what_is_no_number_is_not_drawn():
    (axes, _) = span_triangle([[1, math.nan], [0, 1]], ["a", "b"]).axes
    assert diamonds(axes) == {}


def test_one_word_and_none():
    assert diamonds(span_triangle([[1]], ["a"]).axes[0]) == {}
    element(span_triangle([[1]], ["a"]))
    assert letters(span_triangle([], [])) == ["not run yet"]


def test_words_of_another_sentence():
    with pytest.raises(DataError, match="words: got 1; expected 2, one for each row"):
        span_triangle([[1.0, 0.5], [0.0, 1.0]], ["a"])
