import pytest
import torch
from matplotlib.colors import to_hex

from tests.viewing.pictures.looking import boxes, letters, opacity, said
from tests.viewing.pictures.test_table import posterior
from torch_ctree.data import DataError
from torch_ctree.trees.topology import topology
from torch_ctree.viewing.look import colour
from torch_ctree.viewing.pictures import leaf_intervals
from torch_ctree.viewing.text import percent


@pytest.mark.parametrize("width", [4.0, 11.0])
def test_every_vertex_is_its_interval(width):
    marginals, line = posterior(3).marginals(), topology(2)
    (axes,) = leaf_intervals(marginals.tolist(), ["a", "b", "c"], width).axes
    drawn = boxes(axes)
    for vertex, (box, share) in enumerate(zip(drawn, marginals.sum(0).tolist(), strict=True)):
        depth = (vertex + 1).bit_length() - 1
        ends = box.get_x(), box.get_x() + box.get_width(), box.get_y()
        assert ends == (line.starts[vertex], line.ends[vertex], -depth)
        if share >= 0.005:
            assert to_hex(box.get_facecolor()) == colour(share)
            place = (box.get_x() + box.get_width() / 2, 0.28 - depth)
            assert percent(share) in [text.get_text() for text in axes.texts if text.get_position() == place]
        else:
            assert opacity(box) == 0


def test_a_vertex_has_its_most_probable_word():
    (axes,) = leaf_intervals([[0, 0.9, 0], [0, 0.1, 0], [0, 0, 1]], ["$a$", "b", "熊\x07"]).axes
    assert [text for text in said(axes) if not text[0].isdecimal()] == [
        *("depth 0", "depth 1"),
        *("$a$", "熊\\x07"),
    ]


def test_a_deep_tree():
    marginals = torch.full((60, 511), 1 / 60)
    figure = leaf_intervals(marginals.tolist(), ["wort"] * 60)
    assert len(boxes(figure.axes[0])) == 511
    assert letters(figure).count("wort") < 40


def test_nothing_to_see():
    assert letters(leaf_intervals([], [])) == ["not run yet"]


def test_what_is_of_another_tree():
    with pytest.raises(DataError, match="words: got 1; expected 2"):
        leaf_intervals([[0.2, 0.5, 0.3], [0.9, 0.1, 0.4]], ["a"])
    with pytest.raises(DataError, match="marginals: got 2 vertices"):
        leaf_intervals([[0.2, 0.5]], ["a"])
