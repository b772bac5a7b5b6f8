import math

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgba

from tests.viewing.pictures.looking import boxes, element, letters, opacity, said, titles
from torch_ctree.evaluation.cells import KINDS, TIMES
from torch_ctree.viewing.pictures import heat_map
from torch_ctree.viewing.pictures.heat import GAP, LIKELY
from torch_ctree.viewing.pictures.style import span

SHARES = {("none", "once"): 1.0, ("around", "thrice"): 0.0, ("around", "twice"): 0.4567}


def cells(axes):
    """By their places."""
    return {(int(cell.get_x()), int(cell.get_y())): cell for cell in boxes(axes)}


def test_foundhave_their_numbers_and_colours():
    (axes,) = heat_map({"OM-CTree": SHARES}, KINDS, TIMES).axes
    found, heat = cells(axes), colormaps["cividis"]
    assert len(found) == 12
    assert found[0, 0].get_facecolor() == heat(1.0)
    assert found[2, 3].get_facecolor() == heat(0.0)
    assert found[1, 3].get_facecolor() == heat(0.4567)
    assert sum(opacity(cell) == 0 for cell in found.values()) == 9
    numbers = {(text.get_position(), text.get_text()) for text in axes.texts if "." in text.get_text()}
    assert numbers == {((0.5, 0.5), "100.0"), ((2.5, 3.5), "0.0"), ((1.5, 3.5), "45.7")}
    assert [text for text in said(axes) if "." not in text] == [*TIMES, *KINDS]


def test_names_as_they_come():
    (axes,) = heat_map({"a": SHARES}).axes
    assert [text for text in said(axes) if "." not in text] == ["once", "thrice", "twice", "none", "around"]


def test_numbers_can_be_read():
    """By the contrast that WCAG asks of large letters."""
    (axes,) = heat_map({"": {(f"{n}", "all"): n / 20 for n in range(21)}}).axes
    numbers = [text for text in axes.texts if "." in text.get_text()]
    for number, cell in zip(numbers, boxes(axes), strict=True):
        one, other = sorted(luminance(colour) for colour in (number.get_color(), cell.get_facecolor()))
        assert (other + 0.05) / (one + 0.05) > 3


def luminance(colour):
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgba(colour)[:3]]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def test_a_panel_without_shares_says_why():
    figure = heat_map({"a": SHARES, "b": {}}, KINDS, TIMES)
    assert titles(figure) == ["a", "b"]
    assert said(figure.axes[1]) == ["not run yet"]
    element(figure)


def test_what_is_no_number_stays_empty():
    (axes,) = heat_map({"a": {("x", "y"): math.nan, ("x", "z"): None}}).axes
    assert [opacity(box) for box in boxes(axes)] == [0, 0]
    assert said(axes) == ["y", "z", "x"]


@pytest.mark.parametrize("panels", [{}, {"a": {}}])
def test_nothing_to_see(panels):
    assert letters(heat_map(panels)) == ["not run yet"]


@pytest.mark.parametrize(("width", "columns"), [(11.5, 5), (7.5, 3), (4, 1)])
def test_panels_wrap_inside_the_picture(width, columns):
    figure = heat_map({f"a model\nsplit {n}": SHARES for n in range(5)}, KINDS, TIMES, width)
    places = [axes.get_position() for axes in figure.axes]
    assert len({place.x0 for place in places}) == columns
    assert all(0 <= place.x0 < place.x1 <= 1 and 0 <= place.y0 < place.y1 <= 1 for place in places)
    named = [axes for axes in figure.axes if "around" in said(axes)]
    assert len(named) == -(-5 // columns)


def test_long_names_fit():
    long = {(f"row {n} " + 80 * "x", f"column {m}"): 0.5 for n in range(2) for m in range(20)}
    figure = heat_map({f"add primitive turn left {n}": long for n in range(3)})
    width = figure.get_figwidth()
    for axes in figure.axes:
        place = axes.get_position()
        assert 0 <= place.x0 < place.x1 <= 1
        assert LIKELY * span(axes.get_title()) <= width * place.width + GAP + 0.01
        assert all(text.get_rotation() == 90 for text in axes.texts if text.get_text().startswith("column"))
