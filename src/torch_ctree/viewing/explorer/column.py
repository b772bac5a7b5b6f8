"""What one model has to show, as HTML: answers or trees, of which one is seen at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from torch_ctree.data.disk import finite
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.as_json import as_json
from torch_ctree.viewing.explorer.panel import panel
from torch_ctree.viewing.latex import forest
from torch_ctree.viewing.look import Look
from torch_ctree.viewing.report.page import NOTHING, Html, joined, tag
from torch_ctree.viewing.svg import svg
from torch_ctree.viewing.tree import preorder


@dataclass(frozen=True)
class Shown:
    """An answer, a sample, or a tree of a target."""

    source: tuple[str, ...]
    text: str
    about: str
    """Such as its probability."""
    tree: Vertex | None
    verdict: Html = NOTHING
    """Beside what was expected."""


def column(shown: Sequence[Shown], notes: Sequence[str], look: Look, more: Html = NOTHING) -> Html:
    """All of it: lines about it, a bar to move through it, what is seen of each.

    notes: what is to be said of what was typed; empty ones are not
    more: what is below, about all of it
    """
    said = tag("div", *(tag("p", note, class_="note") for note in notes if note), role="status")
    parts = [_answer(one, n, len(shown), look) for n, one in enumerate(shown)]
    return joined(said, _moving(len(shown)), *parts, tag("div", more, class_="more") if more else NOTHING)


def _moving(count: int) -> Html:
    """Buttons to the one before and the next; where there is one alone, none."""
    if count < 2:
        return NOTHING
    before = tag("button", "‹", type="button", data_move="-1", aria_label="previous", disabled="")
    after = tag("button", "›", type="button", data_move="1", aria_label="next")
    return tag("nav", before, tag("span", role="status", class_="place"), after, aria_label="the best ones")


def _answer(shown: Shown, n: int, count: int, look: Look) -> Html:
    place = f"{n + 1} of {count}, {shown.about}" if count > 1 else shown.about
    parts = [
        tag("p", shown.text or "(nothing)", class_="text"),
        shown.verdict,
        tag("p", place, class_="about") if count == 1 else NOTHING,
    ]
    if shown.tree is not None:
        parts += _with_tree(shown, shown.tree, look)
    given = {"data_place": place, "aria_label": f"answer {n + 1}", "hidden": "" if n else None}
    return tag("article", *parts, class_="answer", **given)


def _with_tree(shown: Shown, tree: Vertex, look: Look) -> list[Html]:
    drawing = svg(tree, look, title=f"Tree of: {shown.text}")
    about = (panel(spot.vertex, spot.path, shown.source) for spot in preorder(look.shown(tree)))
    files = {"tex": forest(tree, look, standalone=True), "json": _json(shown, tree)}
    buttons = (
        tag("button", name, type="button", data_save=ending)
        for name, ending in (("SVG", "svg"), ("LaTeX", "tex"), ("JSON", "json"))
    )
    saving = tag("p", "Save the tree as ", *buttons, class_="saving")
    drawn = tag("div", tag("div", Html(drawing), class_="tree"), saving, class_="drawn")
    known = tag("div", *about, class_="panels", aria_live="polite")
    hidden = (tag("pre", Html(escape(content)), data_file=ending, hidden="") for ending, content in files.items())
    return [tag("div", drawn, known, class_="seen"), *hidden]


def _json(shown: Shown, tree: Vertex) -> str:
    known = {"source": " ".join(shown.source), "text": shown.text, "about": shown.about, "tree": as_json(tree)}
    return json.dumps(finite(known), ensure_ascii=False, indent=1)
