"""Words and numbers as drawings write them, and the room that they take."""

from __future__ import annotations

import math
import unicodedata

from rich.cells import cell_len

JOINERS = "\u200c\u200d"
"""Not seen themselves, but words of some scripts are misspelt without them."""
NARROW, BROAD = frozenset(" !'()*,-./:;I[]fijlrt|·"), frozenset("%@MWmw")
EM_OF_ICONS, EM_OF_WIDE, EM_OF_BROAD, EM_OF_CAPITALS, EM_OF_LETTERS, EM_OF_NARROW = 1.3, 1.0, 1.0, 0.79, 0.65, 0.42


def visible(text: str) -> str:
    """With control characters spelled out, so that a terminal shows them rather than obeys."""
    return "".join(letter if letter.isprintable() or letter in JOINERS else _spelled(letter) for letter in text)


def width(text: str) -> int:
    """The columns that a line takes in a terminal; 熊 takes two."""
    return cell_len(text)


def percent(share: float) -> str:
    """A probability in few characters.

    >>> percent(0.873), percent(0.9996), percent(0.0003), percent(1.0)
    ('87%', '>99%', '<1%', '100%')
    """
    if not math.isfinite(share):
        return "?"
    if 5e-5 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 - 5e-5 else f"{100 * share:.0f}%"


def ems(text: str) -> float:
    """The width of a line in a proportional font, in font sizes: what the widest of the usual fonts need."""
    return sum(map(_em, text))


def _em(letter: str) -> float:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return EM_OF_ICONS if unicodedata.category(letter) == "So" else EM_OF_WIDE
    if letter in NARROW:
        return EM_OF_NARROW
    if letter in BROAD:
        return EM_OF_BROAD
    is_small = letter.islower() or letter.isdecimal() or letter == "_"
    return EM_OF_LETTERS if is_small and letter.isascii() else EM_OF_CAPITALS


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
