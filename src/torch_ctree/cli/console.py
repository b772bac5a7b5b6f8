"""What commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from torch_ctree.viewing import draw, width

if TYPE_CHECKING:
    from nltk import Tree

LEAST = 40  # columns


def console(table: Table | None = None) -> Console:
    """The terminal, taken to be wide enough for a table whatever it says: a line that wraps loses nothing."""
    console = Console(highlight=False, emoji=False)
    needed = 0 if table is None else Console(width=1000).measure(table).maximum
    return Console(highlight=False, emoji=False, width=max(console.width, needed, LEAST))


def say(terminal: Console, text: str, style: str | None = None) -> None:
    """Print text as it is; a long line is the terminal's to wrap."""
    terminal.print(text, style=style, markup=False, soft_wrap=True)


def visible(text: str) -> str:
    """With control characters spelled out, so that a terminal shows them rather than obeys."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def drawn(tree: Tree, room: int) -> str:
    """As a drawing where it fits, in brackets where it does not."""
    tree = tree.copy(deep=True)
    for leaf in tree.treepositions("leaves"):
        tree[leaf] = visible(str(tree[leaf]))
    drawing = draw(tree)
    return drawing if max(map(width, drawing.splitlines())) <= room else tree.pformat(margin=room)
