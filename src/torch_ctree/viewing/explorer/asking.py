"""From what is typed to what is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torch_ctree.data.errors import in_one_line
from torch_ctree.viewing.explorer.answers import Answers, Explained, Parsed
from torch_ctree.viewing.explorer.column import Shown, column
from torch_ctree.viewing.explorer.typed import check, cleaned, is_unfinished
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.report.page import NOTHING, Html, joined, tag

Show = Literal["Best answers", "Samples", "Target’s trees"]
SHOWS: tuple[Show, ...] = get_args(Show)
ANSWERS, SAMPLES, TREES = SHOWS
MARKS = {"probabilities": "probabilities", "confidence": "confidence", "fold repetitions": "fold"}
"""What can be drawn with a tree: as the page has it → as ``Look`` has it."""
START = column([], ["Type a sentence above, or choose an example."], PLAIN)


@dataclass(frozen=True)
class Question:
    """What was typed and chosen."""

    source: str
    target: str = ""
    show: Show = ANSWERS
    look: Look = PLAIN
    seed: int = 0

    @classmethod
    def typed(
        cls, source: str | None, target: str | None, show: Show, marks: Sequence[str], seed: float | None
    ) -> Question:
        """As a page gives it; a field that is empty may be None."""
        look = Look(**{MARKS[mark]: True for mark in marks})
        return cls(cleaned(source), cleaned(target), show, look, max(0, int(seed or 0)))


def ask(model: Answers, question: Question, k: int) -> Html:
    """What a model has to say, or in one line why it cannot."""
    if not question.source:
        return START
    if question.show == TREES and not question.target:
        return column([], ["Type a target too, to see its trees."], question.look)
    try:
        return _asked(model, question, k)
    except (ValueError, MemoryError, RuntimeError) as error:  # out of memory, torch says by a RuntimeError
        return column([], [in_one_line(error)], question.look)


def _asked(model: Answers, question: Question, k: int) -> Html:
    notes = [check("source", question.source, model.source)]
    if question.show == TREES:
        notes.append(check("target", question.target, model.target))
        parsed = model.parse(question.source, question.target, k)
        return column(_trees(parsed), [*notes, _why_none(parsed)], question.look, _about(parsed))
    if question.show == SAMPLES:
        found, about = [model.sample(question.source, question.seed)], f"seed {question.seed}, probability"
    else:
        found, about = model.answers(question.source, k), "probability"
    notes.append("" if found else "No answer has a probability above zero.")
    return column([_shown(one, about, question.target) for one in found], notes, question.look)


def warm(model: Answers, k: int) -> None:
    """Ask everything once: what is compiled or imported at the first call is not waited for later."""
    source, target = (words.decode([len(words) - 1]) for words in (model.source, model.target))
    for show in SHOWS:
        ask(model, Question(source, target, show), k)


def is_typing(model: Answers, source: str | None, target: str | None) -> bool:
    """Whether the end of a text may become a word with the next letters, so that it is too early to ask."""
    return is_unfinished(source, model.source) or is_unfinished(target, model.target)


def _shown(found: Explained, about: str, target: str) -> Shown:
    likely = f"{about} {math.exp(found.log_prob):.3g}"
    return Shown(found.source, found.text, likely, found.tree, _verdict(found.text, target) if target else NOTHING)


def _verdict(text: str, target: str) -> Html:
    if text.split() == target.split():
        return tag("p", "✓ just the target", class_="right")
    return tag("p", "✗ not the target, which is ", tag("b", target), class_="wrong")


def _trees(parsed: Parsed) -> list[Shown]:
    return [
        Shown(parsed.source, parsed.text, f"probability {share:.3g} given the target", tree)
        for tree, share in parsed.trees
    ]


def _why_none(parsed: Parsed) -> str:
    return "" if parsed.trees else "No tree of this model can have this target; it may be too long for one."


def _about(parsed: Parsed) -> Html:
    """What is known of all trees of the target together."""
    if not parsed.trees:
        return NOTHING
    facts = [("probability of the target, over all trees", f"{math.exp(parsed.log_prob):.3g}")]
    if parsed.entropy is not None:
        facts.append(("entropy of its trees", f"{parsed.entropy:.3f} nats"))
    return joined(
        tag("dl", *(tag("div", tag("dt", what), tag("dd", number)) for what, number in facts), class_="facts"),
        tag("h4", "How probable each part is as a constituent"),
        tag("div", _triangle(parsed), class_="triangle"),
    )


def _triangle(parsed: Parsed) -> Html:
    from torch_ctree.viewing.pictures import as_svg, span_triangle  # noqa: PLC0415  (matplotlib takes a while to import)

    return Html(as_svg(span_triangle(parsed.spans, parsed.trees[0][0].leaves)))
