import pytest

from tests.viewing.pictures.looking import boxes, element, explained, letters, x, y
from torch_ctree.viewing.pictures import accuracy_by_length


def test_shares_and_how_many_there_are():
    figure = accuracy_by_length({"a": {30: (1, 4), 24: (3, 3)}, "b": {24: (0, 2), 48: (1, 8), 50: (0, 0)}})
    above, below = figure.axes
    found = [(x(line), y(line)) for line in above.lines]
    assert found == [([24, 30], [1, 0.25]), ([24, 48], [0, 0.125])]
    bars = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in boxes(below)}
    assert bars == pytest.approx({24: 3, 30: 4, 48: 8})
    assert explained(figure) == ["a", "b"]
    element(figure)


def test_one_name_and_one_length():
    figure = accuracy_by_length({"seed 0": {5: (3, 4)}}, about="words of the answer")
    assert explained(figure) == []
    assert {"seed 0", "5", "words of the answer"} <= set(letters(figure))
    (line,) = figure.axes[0].lines
    assert (x(line), y(line)) == ([5], [0.75])


@pytest.mark.parametrize("shares", [{}, {"a": {}}, {"a": {3: (0, 0)}}])
def test_nothing_to_see(shares):
    assert letters(accuracy_by_length(shares)) == ["not run yet"]


def test_many_lengths_and_many_names():
    figure = accuracy_by_length({f"seed {n}": dict.fromkeys(range(48, 201), (n, 10)) for n in range(10)}, width=4)
    assert len({(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}) == 10


@pytest.mark.parametrize("empty", [{}, {3: (0, 0)}])
def test_a_name_without_answers_takes_no_room(empty):
    some = {length: (length, 2 * length) for length in range(1, 30)}
    with_it, without = (accuracy_by_length(shares) for shares in ({"a": some, "b": empty}, {"a": some, "b": some}))
    for one, other in zip(with_it.axes, without.axes, strict=True):
        assert one.get_position().bounds == pytest.approx(other.get_position().bounds, abs=0.02)
