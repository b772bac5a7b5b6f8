"""Trees in brackets, as in treebanks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch_ctree.trees.vertex import LABEL, Vertex
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.nesting import nested

if TYPE_CHECKING:
    from nltk import Tree

NAMES = {"(": "-LRB-", ")": "-RRB-"}
LETTERS = {name: letter for letter, name in NAMES.items()}
EMPTY = "-EMPTY-"
SPELLED = re.compile(r"-LRB-|-RRB-|-U((?:10|0?[0-9A-F])?[0-9A-F]{4})-")


def brackets(tree: Vertex | Tree | str, look: Look = PLAIN) -> str:
    """As ``nltk.Tree.fromstring`` reads it: ``(· (· jump left) walk)``.

    In words and labels brackets are ``-LRB-`` and ``-RRB-``, blanks and control characters their number, such as
    ``-U0020-``; ``unspelled`` undoes it. A word alone is the only child of a root.

    look: whether repeated parts are folded

    >>> brackets(Vertex(children=(Vertex("a"), Vertex("b c"))))
    '(· a b-U0020-c)'
    """
    shown = look.shown(tree)
    if not shown.children:
        shown = Vertex(children=(shown,))
    return nested(shown, _opening, ")")


def unspelled(word: str) -> str:
    """A word as it was before it was written in brackets.

    >>> from nltk import Tree
    >>> Tree.fromstring("(· -LRB- b-U0020-c)", read_leaf=unspelled)
    Tree('·', ['(', 'b c'])
    """
    if word == EMPTY:
        return ""
    return SPELLED.sub(lambda found: LETTERS.get(found[0]) or chr(int(found[1], 16)), word)


def _opening(vertex: Vertex) -> str:
    return f"({_spelled(vertex.label or LABEL)}" if vertex.children else _spelled(vertex.word or "")


def _spelled(text: str) -> str:
    """With every hyphen as a number too, where it would be read as something else."""
    spelled = "".join(map(_letter, text)) or EMPTY
    if unspelled(spelled) == text:
        return spelled
    return "".join("-U002D-" if letter == "-" else _letter(letter) for letter in text)


def _letter(letter: str) -> str:
    if letter in NAMES:
        return NAMES[letter]
    return f"-U{ord(letter):04X}-" if letter.isspace() or not letter.isprintable() else letter
