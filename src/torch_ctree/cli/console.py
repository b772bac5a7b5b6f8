"""What commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, draw
from torch_ctree.viewing.look import PLAIN

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


def show_tree(terminal: Console, tree: Vertex | Tree, look: Look = PLAIN) -> None:
    """A drawing that fits the terminal, in colours if that has them."""
    if terminal.color_system is None:
        say(terminal, draw(tree, look, terminal.width))
    else:
        terminal.print(Text.from_ansi(draw(tree, look, terminal.width, colour=True)), soft_wrap=True)
