"""What is in a picture."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from torch_ctree.viewing.pictures import as_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def said(axes: Axes) -> list[str]:
    """The texts in a panel, but for those of its axes."""
    return [text.get_text() for text in axes.texts]


def x(line: Line2D) -> list[float]:
    return np.asarray(line.get_xdata(), float).tolist()


def y(line: Line2D) -> list[float]:
    return np.asarray(line.get_ydata(), float).tolist()


def boxes(axes: Axes) -> list[Rectangle]:
    """Bars and cells."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def opacity(box: Rectangle) -> float:
    """Of its fill."""
    return to_rgba(box.get_facecolor())[3]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def explained(figure: Figure) -> list[str]:
    """The names in the legend."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def element(figure: Figure, **how: str) -> ElementTree.Element:
    """As SVG, which is XML, and the same twice."""
    text = as_svg(figure, **how)
    assert text == as_svg(figure, **how)
    return ElementTree.fromstring(text)


def letters(figure: Figure) -> list[str]:
    """The texts of the SVG."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(as_svg(figure)).iter(f"{NAMESPACE}text")]
