"""What pages are made of: each is one file that needs no other. Text becomes HTML in ``joined``, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from torch_ctree.viewing.look import Look
from torch_ctree.viewing.svg import still, svg
from torch_ctree.viewing.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from nltk import Tree

STYLE = Path(__file__).with_name("style.css")
EMPTY = {"meta", "br"}
"""Elements that have no end."""


class Html(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


NOTHING = Html()


@dataclass(frozen=True)
class Section:
    """A part of a page, with a heading."""

    title: str
    content: Sequence[Html]
    is_part: bool = False
    """Of the last one that is not."""


def tag(element: str, *content: str, **attributes: str | None) -> Html:
    """An element; what is in it is escaped, unless it is HTML already.

    attributes: with _ at the end where Python has the word, and within for -; those that are None are left out.
        Only what is for scripts, data_…, has the characters that nobody sees

    >>> tag("a", "R&D", href="#x", class_=None)
    '<a href="#x">R&amp;D</a>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value if name.startswith("data_") else visible(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if element in EMPTY:
        return Html(f"<{element}{given}>")
    return Html(f"<{element}{given}>{joined(*content)}</{element}>")


def joined(*content: str) -> Html:
    """One after another."""
    return Html("".join(part if isinstance(part, Html) else escape(visible(part)) for part in content))


# --- parts of a page --------------------------------------------------------------------------------------------------


def page(title: str, lead: Sequence[Html], sections: Sequence[Section], ending: str) -> str:
    """A whole page: with its style, for screens of all sizes and for paper.

    lead: what stands above all sections
    ending: what stands below them
    """
    named = [(f"{n}-{_anchor(section.title)}", section) for n, section in enumerate(sections, 1)]
    has_parts = any(section.is_part for section in sections)
    links = (
        tag(
            "li",
            tag("a", section.title, href=f"#{name}"),
            class_="whole" if has_parts and not section.is_part else None,
        )
        for name, section in named
    )
    parts = [
        tag("header", tag("h1", title), *lead, tag("nav", tag("ul", *links), aria_label="contents")),
        *(
            tag("section", tag("h3" if section.is_part else "h2", section.title), *section.content, id=name)
            for name, section in named
        ),
        tag("footer", tag("p", ending)),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(STYLE.read_text(encoding="utf-8"))),
    ]
    body = Html("\n".join(parts))
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', body), lang='en')}\n"


def _anchor(title: str) -> str:
    """Of a heading, for links to it."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def paragraph(*content: str, kind: str | None = None) -> Html:
    """Some text."""
    return tag("p", *content, class_=kind)


def missing(*content: str) -> Html:
    """What is not there, and what makes it."""
    return paragraph(*content, kind="missing")


def code(text: str) -> Html:
    """As it is typed."""
    return tag("code", text)


def facts(numbers: Sequence[tuple[str, str, str]]) -> Html:
    """The most important numbers, large: (what, the number, more about it)."""
    return tag(
        "dl",
        *(
            tag("div", tag("dt", what), tag("dd", number, tag("small", lines(more)) if more else NOTHING))
            for what, number, more in numbers
        ),
        class_="facts",
    )


def table(lines: Sequence[Sequence[str]], words: int = 1, caption: str = "", last: int = 0) -> Html:
    """Cells in rows, the header first; a cell may have several lines. Wide ones scroll. Nothing, of one without rows.

    words, last: so many columns, from the left and from the right, are not numbers
    """
    header, *rows = lines
    if not rows:
        return NOTHING
    numbers = range(words, len(header) - last)
    classes = ["number" if n in numbers else "text" if n > words else None for n in range(len(header))]
    body = (
        tag("tr", *(_cell(n, cell, name) for n, (cell, name) in enumerate(zip(row, classes, strict=True))))
        for row in rows
    )
    top = (tag("th", name, scope="col", class_=class_) for name, class_ in zip(header, classes, strict=True))
    above = tag("p", caption, class_="caption") if caption else NOTHING
    whole = tag("table", tag("thead", tag("tr", *top)), tag("tbody", *body))
    return joined(above, scrolled(whole, "wide", caption or f"table: {', '.join(filter(None, header))}"))


def _cell(n: int, cell: str, class_: str | None) -> Html:
    content = cell if isinstance(cell, Html) else lines(cell)
    return tag("td", content, class_=class_) if n else tag("th", content, scope="row")


def lines(text: str) -> Html:
    """Text of several lines."""
    first, *more = text.split("\n")
    return joined(first, *(part for line in more for part in (tag("br"), line)))


def scrolled(content: Html, kind: str, label: str) -> Html:
    """What may be wider than a phone; it can be reached, and scrolled, with the keyboard too."""
    return tag("div", content, class_=kind, tabindex="0", role="region", aria_label=label)


def figure(drawing: Html, caption: str | Html = "", kind: str = "picture", label: str = "picture") -> Html:
    """A drawing with what it shows.

    label: what it is called by programs that read pages aloud
    """
    above = tag("figcaption", caption) if caption else NOTHING
    return tag("figure", above, scrolled(drawing, kind, label))


def drawing(tree: Tree, look: Look, title: str) -> Html:
    """A tree to look at."""
    return Html(still(svg(tree, look, title=title)))


def listed(parts: Sequence[str]) -> Html:
    """One below another."""
    return tag("ul", *(tag("li", part) for part in parts))


def picture(plot: Figure, about: str, caption: str = "", kind: str = "") -> Html:
    """A picture of ``viewing.pictures``.

    about: what is to be seen, for those who do not see it
    kind: "half" for one that takes half of the page
    """
    from torch_ctree.viewing.pictures import as_svg  # noqa: PLC0415  (matplotlib takes a while to import)

    return figure(Html(as_svg(plot, about)), caption, f"picture {kind}".strip(), about)


def folded(summary: str, *content: Html, is_open: bool = False) -> Html:
    """What is shown when its summary is chosen, and on paper."""
    return tag("details", tag("summary", summary), *content, open="" if is_open else None)


def abreast(*parts: Html, are_even: bool = False) -> Html:
    """Side by side where there is room.

    are_even: each has half of it
    """
    return tag("div", *(tag("div", part) for part in parts if part), class_="even" if are_even else "abreast")


def bar(share: float) -> Html:
    """A number from 0 to 1 as a length."""
    return tag("span", tag("span", style=f"width: {100 * share:.1f}%"), class_="bar")
