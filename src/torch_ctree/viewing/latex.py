r"""Trees for LaTeX, as figures of papers have them: the package ``forest`` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.layout import placed
from torch_ctree.viewing.look import LIGHT, PLAIN, SCALE, Look, ink, place
from torch_ctree.viewing.nesting import nested
from torch_ctree.viewing.text import percent, visible

if TYPE_CHECKING:
    from nltk import Tree

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",  # in braces: two letters together may be another one, such as -- and ?`
    "'": r"{\char39}",
    "`": r"{\char96}",
    "-": "{-}",
    ",": "{,}",
    "▁": r"\textunderscore{}",  # before subwords that begin a word
    "·": r"\textperiodcentered{}",
    "×": r"\ensuremath{\times}",
    "∧": r"\ensuremath{\wedge}",
} | {letter: "\\" + letter for letter in "{}$&#%_"}
STYLE = r"""  for tree={
    s sep=0.3em, l sep=1.5em, l=0, inner ysep=0.4em, inner xsep=0.1em, align=center, calign=midpoint, fit=band,
    parent anchor=south, child anchor=north,SIDEWAYS
    delay={if content={}{shape=coordinate, parent anchor=center, child anchor=center}{}}
  }"""
"""Vertices that have nothing to say are points where lines meet. With ``fit=tight``, deep trees would take minutes."""
SIDEWAYS = r"""
    grow'=east, s sep=0pt, anchor=west, parent anchor=east, child anchor=west, where n children=0{tier=word}{},
    edge path={\noexpand\path[\forestoption{edge}](!u.parent anchor)-- +(0.6em,0)|-(.child anchor);},"""
"""With the words below one another, and lines that turn at right angles, so that they do not cross."""
COLOURS = "".join(f"\\definecolor{{sure{n}}}{{HTML}}{{{colour[1:].upper()}}}\n" for n, colour in enumerate(SCALE))
"""Vertices have mixtures of these: ``forest`` passes no value on that has commas in it, such as channels."""
DOCUMENT = r"""\documentclass[border=4pt]{standalone}
\usepackage{iftex}
\iftutex
  \usepackage{fontspec}  % with \setmainfont{...} for scripts that Latin Modern does not have
\else
  \usepackage[T1]{fontenc}
\fi
\usepackage{forest}
\begin{document}
FIGURE
\end{document}
"""


def forest(tree: Vertex | Tree | str, look: Look = PLAIN, *, standalone: bool = False) -> str:
    r"""A ``forest`` environment: words below lines, labels and numbers as the look asks.

    standalone: a whole document; in another one ``\usepackage{forest}`` has to be there

    >>> print(forest(Vertex(children=(Vertex("jump"), Vertex("50%")))).splitlines()[-2])
      [[{jump}][{50\%}]]
    """
    shown = look.shown(tree)
    is_sideways = placed(tree, look).is_sideways
    text = nested(shown, lambda vertex: _opening(vertex, look, is_sideways), "]", "")
    lines = text.replace("\n", "\n  ")
    notes = "".join(f"% {note}\n" for note in look.notes(shown))
    colours = COLOURS if any(look.sure(vertex) is not None for vertex in shown.walk()) else ""
    style = STYLE.replace("SIDEWAYS", SIDEWAYS if is_sideways else "")
    figure = f"{notes}{colours}\\begin{{forest}}\n{style}\n  {lines}\n\\end{{forest}}\n"
    return DOCUMENT.replace("FIGURE\n", figure) if standalone else figure


def escaped(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> print(escaped("50% of $x_1"))
    50\% of \$x\_1
    """
    return "".join(SPECIAL.get(letter, letter) for letter in visible(text))


def _opening(vertex: Vertex, look: Look, is_sideways: bool) -> str:
    number = f"\\scriptsize {escaped(look.number(vertex))}" if look.number(vertex) else ""
    between = r"\ " if is_sideways else r"\\"
    if not vertex.children:
        return f"[{{{_joined(between, escaped(vertex.word or ''), number)}}}]"
    sure = look.sure(vertex)
    label = " ".join(escaped(part) for part in (look.label(vertex), "" if sure is None else percent(sure)) if part)
    content = _joined(between, label, number)
    return f"[{{{content}}}{'' if sure is None else _filled(sure)}" if content else "["


def _joined(between: str, *texts: str) -> str:
    return between.join(text for text in texts if text)


def _filled(sure: float) -> str:
    """The colour of a confidence."""
    n, way = place(sure)
    text = "white" if ink(sure) == LIGHT else "black"
    return f", rounded corners=0.4em, text={text}, fill=sure{n + 1}!{100 * way:.0f}!sure{n}"
