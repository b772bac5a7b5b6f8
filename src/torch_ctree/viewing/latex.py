r"""Trees for LaTeX, as figures of papers have them: the package ``forest`` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.look import LIGHT, PLAIN, Look, colour, ink
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
    '"': r"\char34{}",
    "'": r"\char39{}",
    "`": r"\char96{}",
    "-": "{-}",  # two of them are not a dash
    "·": r"\textperiodcentered{}",
    "×": r"\ensuremath{\times}",
    "∧": r"\ensuremath{\wedge}",
} | {letter: "\\" + letter for letter in "{}$&#%_"}
STYLE = r"""  for tree={
    s sep=0.3em, l sep=1.5em, l=0, inner ysep=0.4em, inner xsep=0.1em, align=center, calign=midpoint, fit=tight,
    parent anchor=south, child anchor=north,
    delay={if content={}{inner sep=0pt,
      edge path={\noexpand\path[\forestoption{edge}](!u.parent anchor)--(.south)\forestoption{edge label};}}{}}
  }"""
"""Vertices that have nothing to say are points where lines meet."""
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
    text = nested(shown, lambda vertex: _opening(vertex, look), "]", "")
    lines = text.replace("\n", "\n  ")
    notes = "".join(f"% {note}\n" for note in look.notes(shown))
    figure = f"{notes}\\begin{{forest}}\n{STYLE}\n  {lines}\n\\end{{forest}}\n"
    return DOCUMENT.replace("FIGURE\n", figure) if standalone else figure


def escaped(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> print(escaped("50% of $x_1"))
    50\% of \$x\_1
    """
    return "".join(SPECIAL.get(letter, letter) for letter in visible(text))


def _opening(vertex: Vertex, look: Look) -> str:
    number = f"\\scriptsize {escaped(look.number(vertex))}" if look.number(vertex) else ""
    if not vertex.children:
        return f"[{{{_lines(escaped(vertex.word or ''), number)}}}]"
    sure = look.sure(vertex)
    label = " ".join(escaped(part) for part in (look.label(vertex), "" if sure is None else percent(sure)) if part)
    content = _lines(label, number)
    return f"[{{{content}}}{'' if sure is None else _filled(sure)}" if content else "["


def _lines(*texts: str) -> str:
    return r"\\".join(text for text in texts if text)


def _filled(sure: float) -> str:
    """The colour of a confidence."""
    red, green, blue = (int(colour(sure)[n : n + 2], 16) for n in (1, 3, 5))
    text = "white" if ink(sure) == LIGHT else "black"
    return f", rounded corners=0.4em, text={text}, fill={{rgb,255:red,{red};green,{green};blue,{blue}}}"
