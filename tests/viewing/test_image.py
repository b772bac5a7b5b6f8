from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, pdf, png
from torch_ctree.viewing.layout import layout

from .trees import MANY, NASTY, balanced, known

FULL = Look(probabilities=True, confidence=True)


def pixels(picture: bytes) -> np.ndarray:
    return imread(BytesIO(picture), format="png")


def test_png():
    tree = known(balanced(["jump", "twice", "熊"]))
    picture = png(tree, FULL)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    drawn, found = layout(tree, FULL), pixels(picture)
    assert found.shape[:2] == pytest.approx((2 * drawn.height, 2 * drawn.width), abs=1)
    assert (found[0, :, :3] == 1).all()  # white, and nothing is cut off
    assert (found[-1, :, :3] == 1).all()
    assert (found[:, 0, :3] == 1).all()
    assert (found[:, -1, :3] == 1).all()
    assert 0.01 < (found[:, :, :3] < 0.9).any(-1).mean() < 0.5


def test_every_word_is_there():
    """Where the layout has it there is ink."""
    tree = balanced(["jump", "twice", "and", "walk"])
    found = pixels(png(tree))
    for place in layout(tree).places:
        x, y, width, height = (round(2 * length) for length in place.box)
        assert (found[y : y + height, x : x + width, :3] < 0.5).any()


def test_pdf():
    page = pdf(known(balanced(["jump", "twice"])), FULL)
    assert page.startswith(b"%PDF-")
    assert page.rstrip().endswith(b"%%EOF")


def test_the_same_each_time():
    tree = balanced(["jump", "twice"])
    assert png(tree) == png(tree)
    assert pdf(tree) == pdf(tree)


def test_words_of_all_kinds():
    tree = Vertex(children=tuple(map(Vertex, NASTY)))
    assert pixels(png(tree)).size
    assert pdf(tree).startswith(b"%PDF-")


def test_settings_of_charts_do_not_matter():
    tree = balanced(["a", "b"])
    before = png(tree)
    with mpl.rc_context(
        {"font.size": 30, "figure.facecolor": "red", "savefig.facecolor": "red", "font.family": "serif"}
    ):
        assert png(tree) == before
        assert mpl.rcParams["font.size"] == 30


def test_many_words():
    tree = balanced(MANY[:50])
    drawn = layout(tree)
    assert drawn.is_sideways
    assert pixels(png(tree)).shape[0] == pytest.approx(2 * drawn.height, abs=1)


def test_a_picture_has_no_more_pixels_than_programs_can_open(monkeypatch):
    monkeypatch.setattr("torch_ctree.viewing.image.MOST_PIXELS", 5000)
    rows, columns = pixels(png(balanced(["a", "b"]))).shape[:2]
    assert rows * columns <= 5000 * 1.1


@pytest.mark.parametrize("tree", ["walk", Vertex(""), Vertex(children=(Vertex("walk"),))])
def test_small_ones(tree):
    assert png(tree, FULL).startswith(b"\x89PNG")
    assert pdf(tree, FULL).startswith(b"%PDF")
