import math

import pytest
from matplotlib.container import ErrorbarContainer

from tests.viewing.pictures.looking import explained, letters, said, titles, x, y
from torch_ctree.viewing.pictures import Lane, every_seed


def dots(axes):
    """x and y of each run."""
    (line,) = (line for line in axes.lines if line.get_marker() == "o")
    return x(line), y(line)


def test_a_dot_for_each_run_and_a_line_for_their_mean():
    figure = every_seed({"Length": {"OM-CTree": Lane([10, 20, 60], (40.3, 22.5))}})
    (axes,) = figure.axes
    values, places = dots(axes)
    assert values == [10, 20, 60]
    assert places == sorted(places)
    assert -0.5 < places[0] < places[-1] < 0.5
    means = [line for line in axes.lines if line.get_marker() == "None" and len(set(x(line))) == 1]
    assert [x(line)[0] for line in means] == [30]
    (bar,) = axes.containers
    assert isinstance(bar, ErrorbarContainer)
    (ends,) = bar.lines[2][0].get_segments()
    assert ends[:, 0] == pytest.approx([40.3 - 22.5, 40.3 + 22.5])
    assert x(bar.lines[0]) == [40.3]
    assert len(explained(figure)) == 3


def test_what_is_not_there_is_told():
    figure = every_seed({"a": {"x": Lane(failed=2), "y": Lane([1.0])}, "b": {"y": Lane([0.5], failed=1)}}, scale=1)
    assert [said(axes) for axes in figure.axes] == [["2 failed"], ["not run yet", "1 failed"]]
    assert titles(figure) == ["a", "b"]
    assert [axes.get_xlim()[1] > 1 for axes in figure.axes] == [True, True]
    assert {"x", "y"} <= set(letters(figure))


def test_what_is_no_number_has_failed():
    (axes,) = every_seed({"a": {"x": Lane([10, None, 30, math.nan], failed=1)}}).axes
    assert dots(axes)[0] == [10, 30]
    assert said(axes) == ["3 failed"]


def test_ten_seeds_in_many_lanes():
    lanes = {f"model {n}": Lane([10.0 * seed for seed in range(10)]) for n in range(6)}
    figure = every_seed({f"split {n}": lanes for n in range(6)}, width=4)
    for axes in figure.axes:
        places = [place for line in axes.lines if line.get_marker() == "o" for place in y(line)]
        assert len(set(places)) == 60


@pytest.mark.parametrize("panels", [{}, {"a": {}}])
def test_nothing_to_see(panels):
    assert letters(every_seed(panels)) == ["not run yet"]
