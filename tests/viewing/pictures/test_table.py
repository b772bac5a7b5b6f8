import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

from tests.viewing.pictures.looking import boxes, element, letters, said
from torch_ctree import LatentTree
from torch_ctree.data import DataError
from torch_ctree.trees import naive
from torch_ctree.trees.topology import topology
from torch_ctree.viewing.pictures import Alphas, alphas_of, dp_table
from torch_ctree.viewing.pictures.style import ACCENT

WORDS = ["a", "b", "c"]


def posterior(length: int, depth: int = 2, words: int = 3):
    """Of a random distribution, with the sentence 0, 1, …, so long."""
    generator = torch.Generator().manual_seed(length)
    vertices = (2 << depth) - 1
    logits = torch.randn(vertices, generator=generator), torch.randn(vertices, words, generator=generator)
    return LatentTree(*logits).posterior(torch.arange(length))


def way(axes):
    """Row and column of the cells in frames; first and last position of the bars between rows."""
    frames = [box for box in boxes(axes) if box.get_edgecolor() == to_rgba(ACCENT)]
    bars = [box for box in boxes(axes) if box not in frames]
    cells = [(box.get_y() + 0.5, box.get_x() + 0.5) for box in frames]
    return cells, [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_numbers_of_a_posterior_by_enumeration(length):
    found, line = posterior(length, words=4), topology(2)
    weights, table = found.log_weights.exp().tolist(), alphas_of(found)
    trees = [tree for tree in naive.trees(2) if len(tree) == length]
    passed = {(n, line.ends[v]) for tree in trees for n, v in enumerate(tree, 1)} | {(0, 0)}
    assert {(n, p) for n, row in enumerate(table.used) for p, used in enumerate(row) if used} == passed
    whole = sum(math.prod(weights[n][v] for n, v in enumerate(tree)) for tree in trees)
    assert table.alphas[-1][-1] == pytest.approx(math.log(whole), abs=1e-5)
    best = max(trees, key=lambda tree: math.prod(weights[n][v] for n, v in enumerate(tree)))
    assert table.ends == [line.ends[v] for v in best]


def test_a_sentence_that_no_tree_has():
    logits = torch.tensor([[0.0, -math.inf]]).expand(7, -1)  # nobody says 1
    table = alphas_of(LatentTree(torch.zeros(7), logits).posterior(torch.tensor([0, 1, 0])))
    assert table.ends == []
    assert not np.any(table.used)
    figure = dp_table(table.alphas, WORDS, table.used, table.ends)
    assert way(figure.axes[0]) == ([], [])
    element(figure)


def test_cells_are_numbers_colours_and_the_way():
    table = alphas_of(posterior(3))
    (axes,) = dp_table(table.alphas, WORDS, table.used, table.ends).axes
    values, used = np.array(table.alphas), np.array(table.used)
    numbers = {text.get_position()[::-1]: text.get_text() for text in axes.texts if "." in text.get_text()}
    assert numbers == {
        (n, p): f"{values[n, p]:.1f}".replace("-", "−") for n, p in np.argwhere(values > -math.inf).tolist()
    }
    fills = np.asarray(axes.images[0].get_array())
    assert (fills[values == -math.inf][:, 3] == 0).all()
    assert (fills[used][:, 3] == 1).all()
    grey = fills[(values > -math.inf) & ~used]
    assert len(np.unique(grey, axis=0)) == 1
    light = fills[used][:, :3].mean(-1)
    assert (np.diff(light[np.argsort(values[used])]) <= 1e-9).all()  # the more probable, the darker
    cells, bars = way(axes)
    assert cells == list(enumerate([0, *table.ends]))
    assert bars == list(zip([0, *table.ends[:-1]], table.ends, strict=True))


def test_the_names_of_rows_and_columns():
    table = alphas_of(posterior(3))
    texts = said(dp_table(table.alphas, WORDS).axes[0])
    assert [text.replace("\xa0", "") for text in texts if "n =" in text] == ["n = 0", "an = 1", "bn = 2", "cn = 3"]
    assert [text for text in texts if text.isdecimal()] == ["0", "1", "2", "3", "4"]


def test_without_more_knowledge_every_possible_cell_counts():
    fills = dp_table([[0.0, -math.inf], [-math.inf, -2.0]], ["a"]).axes[0].images[0].get_array()
    np.testing.assert_array_equal(np.asarray(fills)[..., 3], [[1, 0], [0, 1]])


@pytest.mark.parametrize("width", [4.0, 7.5])
def test_a_deep_tree_and_many_words(width):
    """No numbers then, but what the colours mean."""
    positions, words = 257, 48
    alphas = np.subtract.outer(-np.arange(words + 1.0), np.zeros(positions))
    figure = dp_table(alphas.tolist(), ["熊\x07"] * words, ends=list(range(1, words + 1)), width=width)
    texts = letters(figure)
    assert "log α −48.0 to 0.0" in texts
    assert sum("熊\\x07" in text for text in texts) == words
    assert len([text for text in texts if text.isdecimal()]) <= 20
    assert len(way(figure.axes[0])[0]) == words + 1
    assert figure.get_size_inches()[0] <= width + 1e-6


def test_nothing_to_see():
    assert letters(dp_table([], [])) == ["not run yet"]


def test_what_stands_in_for_it():
    table = Alphas([[0.0]], [[True]], [])
    element(dp_table(table.alphas, [], table.used, table.ends))


def test_long_words_and_wrong_ones():
    figure = dp_table([[0.0, -1.0, -2.0]] * 2, ["x" * 80], width=4)
    assert "…" in "".join(letters(figure))
    with pytest.raises(DataError, match="words: got 2; expected 1, one for each row"):
        dp_table([[0.0, -1.0]] * 2, ["a", "b"])
