"""How pictures look: colours, letters, matplotlib's settings."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from matplotlib import rc_context
from matplotlib.colors import to_rgb

from torch_ctree.viewing.text import ems

P = ParamSpec("P")
R = TypeVar("R")

INK = "#1f262e"
"""Of lines and letters that have no fill behind them, and of nothing else: ``as_svg`` makes it the page's colour."""
DARK, LIGHT = "#10151b", "#fdfdfe"  # letters on fills
FAINT = 0.6  # opacity of what matters less
RULE = "#8a939e"  # lines that are seen on white and on dark
COLOURS = ("#0077bb", "#e8702a", "#009988", "#d94f9a", "#8c8c2e", "#8a8f98")
"""Of lines and marks: they are apart for colour-blind readers, and seen on white and on dark (after Paul Tol)."""
FILLS = ("#77aadd", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00", "#eedd88", "#ee8866", "#ffaabb", "#dddddd")
"""Light fills that stay apart for colour-blind readers and carry dark letters (Paul Tol's "light" scheme)."""
OURS, PUBLISHED = COLOURS[:2]
ACCENT = "#d1443a"
NOT_YET = "not run yet"
WIDTH = 7.5  # inches: a column of text on a page
SIZE, SMALL = 10, 9  # of letters, in points
PAPER = "#ffffff"  # a background for pictures that must have one

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "torch-ctree",
    "svg.fonttype": "none",  # text stays text
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": SIZE,
    "text.color": INK,
    "text.parse_math": False,  # a word may be $
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": SIZE,
    "axes.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "figure.facecolor": "none",
    "savefig.facecolor": "auto",
}
_ONE_AT_A_TIME = threading.RLock()  # matplotlib's settings are those of the whole process


def styled(make: Callable[P, R]) -> Callable[P, R]:
    """A function that draws, in this style; whatever matplotlib is set to, before and after."""

    @wraps(make)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        with _ONE_AT_A_TIME, rc_context(STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # whoever shows the text has others
            return make(*args, **kwargs)

    return drawing


def dashes(n: int) -> Any:
    """The n-th style of lines: solid as long as there are colours, then others."""
    return ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))[n // len(COLOURS) % 4]


def colour(n: int) -> str:
    """The n-th, and so on from the beginning."""
    return COLOURS[n % len(COLOURS)]


def number(value: Any) -> float:
    """Not a number for what is none, and for infinities."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def letters(fill: Sequence[float] | str) -> str:
    """What can be read on a fill."""
    red, green, blue = to_rgb(fill)  # pyright: ignore[reportArgumentType]
    return LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else DARK


def span(text: str, size: float = SIZE) -> float:
    """About how many inches the longest line of a text takes. No font is asked, which may lack its letters."""
    return max(map(ems, text.split("\n"))) * size / 72


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """With … for the middle of what does not fit into so many inches.

    >>> shortened("walk around left thrice and jump", 1.2)
    'walk a…d jump'
    """
    if span(text, size) <= room:
        return text
    cuts = (f"{text[: (kept + 1) // 2].rstrip()}…{text[-(kept // 2) :].lstrip()}" for kept in range(len(text), 2, -1))
    return next((cut for cut in cuts if span(cut, size) <= room), f"{text[0]}…{text[-1]}")


def every(last: int, room: float) -> int:
    """Which of the numbers 0 … last, of so many inches each, are written: every second, fourth, …

    >>> every(16, 0.5), every(16, 0.1), every(256, 0.03)
    (1, 4, 16)
    """
    return 1 << max(0, math.ceil(math.log2(span(f"{last}  ", SMALL) / room)))
