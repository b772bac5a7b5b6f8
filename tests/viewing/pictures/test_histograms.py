from itertools import pairwise

import pytest

from tests.viewing.pictures.looking import boxes, element, explained, letters, opacity, said, titles
from torch_ctree.viewing.pictures import Counts, seed_histogram

PAPER = (0, 5, 1, 1, 0, 0, 0, 0, 1, 2, 0)  # the last only ends the drawing


def bars(axes):
    """Tenth → how many, of the filled and of the empty ones."""
    filled = {int(bar.get_x()): bar.get_height() for bar in boxes(axes) if opacity(bar)}
    empty = {int(bar.get_x()): bar.get_height() for bar in boxes(axes) if not opacity(bar)}
    return filled, empty


def test_bars_are_counts():
    figure = seed_histogram({"Length": Counts([0, 4, 2, 0, 0, 2, 1, 0, 0, 1], PAPER), "Jump": Counts([10] + [0] * 9)})
    length, jump = figure.axes
    assert bars(length) == ({1: 4, 2: 2, 5: 2, 6: 1, 9: 1}, {1: 5, 2: 1, 3: 1, 8: 1, 9: 2})
    assert bars(jump) == ({0: 10}, {})
    assert titles(figure) == ["Length", "Jump"]
    assert explained(figure) == ["runs here", "runs published"]
    assert length.get_ylim() == jump.get_ylim()
    element(figure)


def test_nothing_is_hidden_by_something_else():
    (axes,) = seed_histogram({"": Counts([1] * 10, [1] * 10)}).axes
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in boxes(axes))
    assert len(edges) == 20
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(edges))
    assert edges[0][0] >= 0
    assert edges[-1][1] <= 10


@pytest.mark.parametrize("counts", [Counts(()), Counts([0] * 10), Counts((), PAPER)])
def test_not_run_yet(counts):
    figure = seed_histogram({"Length": counts, "other": Counts([0] * 9 + [1])})
    assert [said(axes) for axes in figure.axes] == [["not run yet"], []]
    assert bars(figure.axes[0])[0] == {}


def test_nothing_published():
    assert explained(seed_histogram({"Length": Counts([1])})) == ["runs here"]


def test_no_titles():
    assert letters(seed_histogram({})) == ["not run yet"]


@pytest.mark.parametrize(("how", "columns"), [({"width": 7.5}, 4), ({"width": 4}, 2), ({"across": 3}, 3)])
def test_panels_wrap(how, columns):
    figure = seed_histogram({f"split {n}": Counts([n]) for n in range(6)}, **how)
    assert len({axes.get_position().x0 for axes in figure.axes}) == columns
