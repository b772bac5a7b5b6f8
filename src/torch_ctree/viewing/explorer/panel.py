"""What is known of one vertex, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.report.page import NOTHING, Html, joined, tag

MOST = 8
"""Words of a distribution that are shown."""
NAMING = 6
"""Words below a vertex that name it."""
LEAST = 1e-4
"""The smallest share that is written with its digits."""


def panel(vertex: Vertex, path: str, source: Sequence[str]) -> Html:
    """A section about a vertex, to be shown when it is chosen.

    path: where it is in the tree: "" for the root, then the numbers of children: "0.1"
    source: the words that it looks at
    """
    words = vertex.leaves
    name = f"“{' '.join(words[:NAMING])}{' …' if len(words) > NAMING else ''}”"
    kind = f"{len(words)} words, in {len(vertex.children)} parts" if vertex.children else "a word"
    return tag(
        "section",
        tag("h3", name, " ", tag("small", kind)),
        _probabilities(vertex),
        _of_a_grammar(vertex, source),
        _bars("What it would say as a word" if vertex.children else "What it may say", vertex.words[:MOST]),
        shaded("Where it looks in the source", source, vertex.attention),
        shaded("Where its word is looked for", source, vertex.found),
        class_="panel",
        data_path=path,
        hidden="",
    )


def percent(share: float) -> str:
    """A probability; of a small one, the first digits, as far as there is room for them.

    >>> percent(0.973), percent(0.00012), percent(0.000012), percent(0)
    ('97.3%', '0.012%', '<0.01%', '0%')
    """
    if 0 < share < LEAST:
        return f"<{LEAST:.2%}"
    return f"{share:.1%}" if share >= 0.01 else f"{100 * share:.2g}%"


def _probabilities(vertex: Vertex) -> Html:
    known = (
        ("splits in two", vertex.split),
        ("says its word", vertex.emission),
        ("is a constituent", vertex.confidence if vertex.children else None),  # a word always is
    )
    return _bars("", [(label, share) for label, share in known if share is not None])


def _of_a_grammar(vertex: Vertex, source: Sequence[str]) -> Html:
    phrase = operator = NOTHING
    if vertex.phrase is not None:
        start, end = vertex.phrase
        phrase = tag("p", "Its phrase in the source: ", tag("b", " ".join(source[start:end])))
    if vertex.operator is not None:
        operator = tag("p", "Its operator: ", tag("b", str(vertex.operator)))
    return joined(phrase, operator)


def _bars(title: str, shares: Iterable[tuple[str, float]]) -> Html:
    """A row for each probability, with a bar as long."""
    rows = [
        tag(
            "li",
            tag("span", label, class_="label"),
            tag("span", class_="bar", style=_style(share)),
            tag("span", percent(share), class_="share"),
        )
        for label, share in shares
    ]
    return _listed(title, tag("ul", *rows, class_="bars")) if rows else NOTHING


def shaded(title: str, words: Sequence[str], shares: Sequence[float]) -> Html:
    """The words, each as dark as its share."""
    cells = [
        tag("li", word, tag("small", percent(share)), style=_style(share))
        for word, share in zip(words, shares, strict=False)
    ]
    return _listed(title, tag("ol", *cells, class_="shaded")) if cells else NOTHING


def _listed(title: str, rows: Html) -> Html:
    return joined(tag("h4", title) if title else NOTHING, rows)


def _style(share: float) -> str:
    return f"--share: {share:.3f}"
