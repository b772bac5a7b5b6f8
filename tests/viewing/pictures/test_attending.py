import math
import sys

import numpy as np
import pytest

from tests.viewing.pictures.looking import boxes, element, letters, said
from torch_ctree.data import DataError
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.pictures import attention

TREE = Vertex(
    children=(
        Vertex("LEFT", attention=(0.0, 1.0)),
        Vertex(children=(Vertex("WALK", found=(0.9, 0.1)), Vertex("$RUN$")), attention=(math.nan, 0.25)),
    ),
    attention=(0.5, 0.5),
)


def shares(figure):
    """(vertices, words), as opaque as the cells are."""
    opacity = np.asarray(figure.axes[0].images[0].get_array(), float)[..., 3]
    return (opacity - opacity.min()) / 0.9


def test_a_row_for_each_vertex_and_a_column_for_each_word():
    figure = attention(TREE, ["left", "walk"])
    cells, outline = figure.axes
    np.testing.assert_allclose(shares(figure), [[0.5, 0.5], [0, 1], [0, 0.25], [0.9, 0.1], [0, 0]], atol=1e-9)
    assert said(outline) == ["LEFT WALK $RUN$", "LEFT", "WALK $RUN$", "WALK", "$RUN$"]
    indents = [text.get_position()[0] for text in outline.texts]
    assert indents[0] < indents[1] == indents[2] < indents[3] == indents[4]
    rows = [text.get_position()[1] for text in outline.texts]
    assert rows == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert said(cells)[:2] == ["left", "walk"]
    numbers = {text.get_position(): text.get_text() for text in cells.texts if "%" in text.get_text()}
    assert numbers == {
        (0.5, 0.5): "50%",
        (1.5, 0.5): "50%",
        (1.5, 1.5): "100%",
        (1.5, 2.5): "25%",
        (0.5, 3.5): "90%",
        (1.5, 3.5): "10%",
    }
    element(figure)


def test_phrases_are_framed():
    tree = Vertex(children=(Vertex("a", phrase=(0, 1)), Vertex("b", phrase=(1, 3))), phrase=(0, 3))
    cells = attention(tree, ["x", "y", "z"]).axes[0]
    frames = [(box.get_x(), box.get_x() + box.get_width(), int(box.get_y())) for box in boxes(cells)]
    assert frames == [(0, 3, 0), (0, 1, 1), (1, 3, 2)]


@pytest.mark.parametrize(("tree", "source"), [(Vertex("a"), ["b"]), (Vertex("a", attention=(1.0,)), [])])
def test_nothing_is_known(tree, source):
    assert letters(attention(tree, source)) == ["nothing is known of where it looks"]


def test_words_of_another_source():
    with pytest.raises(DataError, match=r"^attention: a vertex looks at 2 words; expected those of the source, 3$"):
        attention(TREE, ["a", "b", "c"])


@pytest.mark.parametrize("width", [4.0, 7.5])
def test_many_words(width):
    words = [f"слово{n}" for n in range(60)]
    tree = Vertex(words[0], attention=(1 / 60,) * 60)
    for word in words[1:]:
        tree = Vertex(children=(tree, Vertex(word)), attention=(1 / 60,) * 60)
    figure = attention(tree, words, width=width)
    assert shares(figure).shape == (119, 60)
    assert figure.get_size_inches()[0] >= 60 * 0.15
    whole = said(figure.axes[1])[0]
    assert whole.startswith("слово0 с")
    assert whole.endswith("слово59")
    assert "…" in whole


def test_deeper_than_python_counts():
    tree = Vertex("a", attention=(1.0,))
    for _ in range(sys.getrecursionlimit()):
        tree = Vertex(children=(tree,))
    assert shares(attention(tree, ["b"])).sum() == pytest.approx(1)


def test_a_phrase_of_another_source():
    with pytest.raises(DataError, match="phrase 1 to 3 of a source of 2 words"):
        attention(Vertex("a", phrase=(1, 3)), ["x", "y"])
