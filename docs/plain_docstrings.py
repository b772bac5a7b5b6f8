"""Docstrings in plain prose → Markdown, for the API pages.

The library's docstrings are written to be read in an editor or by ``help()``: shapes such as (*batch, N) stand bare,
arguments are paragraphs that begin with ``name:``, examples begin with ``>>>``. Taken as Markdown, asterisks would
become italics, arguments would run together, and examples would turn into quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

CODE = re.compile(r"(``.+?``|`[^`]+`)")
SPECIAL = re.compile(r"([*_<\[])")
ARGUMENT = re.compile(r"([a-z]\w*(?:, \w+)*): ")


class PlainDocstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    return "\n\n".join(block(part) for part in docstring.split("\n\n"))


def block(part: str) -> str:
    if part.startswith(">>>"):
        return f"```pycon\n{part}\n```"
    if ARGUMENT.match(part):
        arguments = re.split(r"\n(?=\S)", part)
        return "\n".join("- " + escape(ARGUMENT.sub(r"``\1``: ", argument, count=1)) for argument in arguments)
    return escape(part)


def escape(prose: str) -> str:
    """Prose with everything that Markdown would read as a command made literal, except code between backticks."""
    pieces = CODE.split(prose)
    return "".join(piece if CODE.fullmatch(piece) else SPECIAL.sub(r"\\\1", piece) for piece in pieces)
