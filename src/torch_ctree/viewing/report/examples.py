"""The best and the worst answers of a run, with their trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from torch_ctree.evaluation import Prediction, is_exact
from torch_ctree.viewing.brackets import unspelled
from torch_ctree.viewing.look import Look
from torch_ctree.viewing.report.page import NOTHING, Html, drawing, figure, joined, tag

MOST = 6
"""Of wrong answers, and of right ones."""
LARGE = 12
"""Words: of larger trees, repeated parts are drawn once."""


@dataclass(frozen=True)
class Group:
    """Some answers, and why these."""

    title: str
    predictions: Sequence[Prediction]


def chosen(predictions: Sequence[Prediction]) -> list[Group]:
    """The worst, which are wrong and yet sure, and the best: right ones that are sure, and right ones that are not.

    Groups that nothing is in are left out; no answer is in two.
    """
    ranked = sorted(predictions, key=_doubt)
    right = [one for one in ranked if is_exact(one)]
    wrong = [one for one in ranked if not is_exact(one)]
    half = MOST // 2
    groups = [
        Group("Wrong, and most certain of it", wrong[:MOST]),
        Group("Right, and most certain", right[:half]),
        Group("Right, and least certain", right[half:][-half:][::-1]),
    ]
    return [group for group in groups if group.predictions]


def _doubt(one: Prediction) -> tuple[float, int]:
    """How little probable an answer is; those of which it is not known come last."""
    return (math.inf if math.isnan(one.log_prob) else -one.log_prob, one.row)


def of(one: Prediction) -> Html:
    """An answer with all that is known of it."""
    return example(one.source, one.target, one.output, one.tree, one.target_tree, one.log_prob)


def example(
    source: str,
    target: str,
    output: str,
    tree: str | None,
    target_tree: str | None = None,
    log_prob: float | None = None,
) -> Html:
    """A source with its answer, next to what was expected; words that differ are marked, and trees are drawn.

    tree: of the answer, as brackets on one line; so is that of the target
    """
    is_right = output.split() == target.split()
    said, expected = compared(output.split(), target.split())
    certain = [] if log_prob is None or math.isnan(log_prob) else [("probability", joined(probability(log_prob)))]
    rows = [
        ("source", words(source)),
        *([] if is_right else [("target", expected)]),
        ("answer", said),
        *certain,
    ]
    pairs = (part for name, content in rows for part in (tag("dt", name), tag("dd", content)))
    trees = [("of the answer", tree), *([] if is_right else [("of the target", target_tree)])]
    drawn = [_tree(brackets, f"tree {whose}") for whose, brackets in trees if brackets]
    below = tag("div", *drawn, class_="trees") if drawn else NOTHING
    return tag("article", tag("dl", *pairs), below, class_="example")


def probability(log_prob: float) -> str:
    """And its logarithm, which says more of small ones.

    >>> probability(-0.5)
    '0.607 (log −0.500)'
    """
    return f"{math.exp(min(log_prob, 0)):.3g} (log {log_prob:.3f})".replace("-", "−")


def words(text: str) -> Html:
    """Text in any script, that changes the direction of nothing beside it."""
    return tag("bdi", text) if text.strip() else tag("span", "nothing", class_="faint")


def compared(output: Sequence[str], target: Sequence[str]) -> tuple[Html, Html]:
    """Both as text: marked in the output what the target does not have there, in the target what the output lacks."""
    said, expected = [], []
    for kind, a, b, c, d in SequenceMatcher(None, output, target, autojunk=False).get_opcodes():
        is_same = kind == "equal"
        said.append(_marked(output[a:b], None if is_same else "wrong"))
        expected.append(_marked(target[c:d], None if is_same else "lost"))
    return _sentence(said), _sentence(expected)


def _marked(some: Sequence[str], kind: str | None) -> Html:
    if not some:
        return NOTHING
    return joined(" ".join(some)) if kind is None else tag("mark", " ".join(some), class_=kind)


def _sentence(parts: Sequence[Html]) -> Html:
    said = [part for part in parts if part]
    return tag("bdi", Html(" ".join(said))) if said else words("")


def _tree(brackets: str, caption: str) -> Html:
    """A drawing, in a large tree of every repeated part once; the brackets as they are, where they are no tree."""
    from nltk import Tree  # noqa: PLC0415  (slow to import)

    try:
        tree = Tree.fromstring(brackets, read_leaf=unspelled)
        is_large = len(tree.leaves()) > LARGE
        said = f"{caption}, repeated parts once" if is_large else caption
        return figure(drawing(tree, Look(fold=is_large), caption), said, "tree", said)
    except (ValueError, RecursionError):  # of what is no tree, or is hundreds of words deep
        return figure(tag("code", brackets), caption, "tree", caption)
