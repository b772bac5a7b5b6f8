import csv
import io
import math

import numpy as np
import pytest

from tests.viewing.pictures.looking import explained, letters, titles, x, y
from torch_ctree.viewing.pictures import learning_curves


def run(epochs: int, **changes):
    """Rows of metrics.csv."""
    return [
        {"epoch": n, "train_loss": 4 / n, "validation_loss": 5 / n, "validation_accuracy": 1 - 1 / n, "attempt": 1}
        | changes
        for n in range(1, epochs + 1)
    ]


def test_a_panel_for_each_column_and_a_line_for_each_run():
    figure = learning_curves({f"seed {n}": run(n + 2) for n in range(10)})
    assert titles(figure) == ["train loss", "validation loss", "validation accuracy"]
    for axes, top, sign in zip(figure.axes, (4, 5, 1), (1, 1, -1), strict=True):
        curves, ends = axes.lines[::2], axes.lines[1::2]
        for n, (curve, end) in enumerate(zip(curves, ends, strict=True)):
            epochs = np.arange(1, n + 3)
            assert x(curve) == epochs.tolist()
            expected = top / epochs if sign > 0 else 1 - 1 / epochs
            assert y(curve) == pytest.approx(expected)
            assert (*x(end), *y(end)) == pytest.approx((n + 2, expected[-1]))
        looks = [(curve.get_color(), curve.get_linestyle()) for curve in curves]
        assert len(set(looks)) == 10
    assert explained(figure) == [f"seed {n}" for n in range(10)]


def test_rows_as_a_file_has_them():
    text = "epoch,train_loss,validation_loss\n1,2.5,inf\n2,nan,\n3,0.5,-inf\n"
    figure = learning_curves({"a run": list(csv.DictReader(io.StringIO(text)))})
    assert titles(figure) == ["train loss"]  # the other has no number
    curve, end = figure.axes[0].lines
    assert y(curve) == pytest.approx([2.5, math.nan, 0.5], nan_ok=True)
    assert (*x(end), *y(end)) == (3, 0.5)
    assert explained(figure) == []


def test_a_gap_between_attempts():
    rows = [row | {"attempt": 1 + n // 2} for n, row in enumerate(run(4))]
    curve = learning_curves({"a run": rows}, ["train_loss"]).axes[0].lines[0]
    assert y(curve) == pytest.approx([4, 2, math.nan, 4 / 3, 1], nan_ok=True)
    assert x(curve) == pytest.approx([1, 2, math.nan, 3, 4], nan_ok=True)


def test_one_epoch_is_a_dot():
    figure = learning_curves({"seed 0": run(1)})
    assert [(*x(axes.lines[1]), *y(axes.lines[1])) for axes in figure.axes] == [
        (1, 4),
        (1, 5),
        (1, 0),
    ]
    assert "1" in letters(figure)


@pytest.mark.parametrize("runs", [{}, {"seed 0": []}, {"seed 0": run(3, train_loss=None)}])
def test_nothing_to_see(runs):
    assert letters(learning_curves(runs, ["train_loss"])) == ["not run yet"]


def test_a_run_without_numbers_among_others():
    figure = learning_curves({"fails": [], "goes on": run(3)})
    assert explained(figure) == ["fails", "goes on"]
    assert [len(x(line)) for line in figure.axes[0].lines] == [0, 0, 3, 1]


def test_losses_that_fall_far_are_on_a_logarithmic_scale_with_plain_numbers():
    far, near, zero = (learning_curves({"a": [{"train_loss": 2.0}, {"train_loss": y}]}) for y in (0.01, 1.0, 0.0))
    assert [figure.axes[0].get_yscale() for figure in (far, near, zero)] == ["log", "linear", "linear"]
    assert {"1", "0.1"} <= set(letters(far))


def test_narrow_pages_have_panels_below_each_other():
    wide, narrow = (learning_curves({"a": run(3)}, width=width) for width in (7.5, 4.0))
    assert len({axes.get_position().y0 for axes in wide.axes}) == 1
    assert len({axes.get_position().x0 for axes in narrow.axes}) == 1
    assert len({axes.get_position().y0 for axes in narrow.axes}) == 3


def test_names_are_no_formulas():
    assert {"$x^2$ <&>", "学"} <= set(letters(learning_curves({"$x^2$ <&>": run(2), "学": run(2)}, ["train_loss"])))
