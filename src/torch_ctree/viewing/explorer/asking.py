"""From what is typed to what is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from torch_ctree.data.errors import in_one_line
from torch_ctree.viewing.explorer.answers import Answers, Explained, Parsed
from torch_ctree.viewing.explorer.column import Shown, column
from torch_ctree.viewing.explorer.typed import check, cleaned, unfinished
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.report.page import NOTHING, Html, joined, tag

Show = Literal["Best answers", "Samples", "Target’s trees"]
SHOWS: tuple[Show, ...] = get_args(Show)
ANSWERS, SAMPLES, TREES = SHOWS
MARKS = {"probabilities": "probabilities", "confidence": "confidence", "folded": "fold"}
"""What can be drawn with a tree: as the page has it → as ``Look`` has it."""
LAST_SEED = 2**31 - 1
START = column([], ["Type a sentence above, or choose an example."], PLAIN)


@dataclass(frozen=True)
class Question:
    """What was typed and chosen."""

    source: str
    target: str = ""
    show: Show = ANSWERS
    look: Look = PLAIN
    seed: int = 0
    left_out: str = ""
    """What is no word yet."""
    is_judged: bool = True
    """Whether an answer is compared with the target."""

    @classmethod
    def typed(
        cls, source: str | None, target: str | None, show: Show, marks: Sequence[str], seed: float | None
    ) -> Question:
        """As a page gives it; a field that is empty may be None."""
        look = Look(**{MARKS[mark]: True for mark in marks})
        return cls(cleaned(source), cleaned(target), show, look, min(max(0, int(seed or 0)), LAST_SEED))

    def so_far(self, model: Answers) -> Question:
        """Without the ends of texts that are no words yet."""
        ends = unfinished(self.source, model.source), unfinished(self.target, model.target)
        source, target = (text.removesuffix(end) for text, end in zip((self.source, self.target), ends, strict=True))
        left_out = " and ".join(f"“{end}”" for end in ends if end)
        return replace(self, source=source, target=target, left_out=left_out, is_judged=not ends[1])


def ask(model: Answers, question: Question, k: int) -> Html:
    """What a model has to say, or in one line why it cannot."""
    if not question.source.strip():
        return START
    if question.show == TREES and not question.target.strip():
        return column([], ["Type a target too, to see its trees."], question.look)
    try:
        found = _found(model, question, k)
    except (ValueError, MemoryError, RuntimeError) as error:  # out of memory, torch says by a RuntimeError
        return column([], [in_one_line(error)], question.look)
    more = _about(found.parsed) if found.parsed is not None and found.shown else NOTHING
    return column(found.shown, found.notes, question.look, more)


class Found(NamedTuple):
    """What a model has to say."""

    shown: Sequence[Shown]
    notes: Sequence[str]
    parsed: Parsed | None = None


def _found(model: Answers, question: Question, k: int) -> Found:
    source, target = question.source.strip(), question.target.strip()
    notes = [check("source", source, model.source, model.most_words)]
    left_out = f", without {question.left_out}, not yet a word" if question.left_out else ""
    if question.show == TREES:
        notes.append(check("target", target, model.target, model.most_words))
        parsed = model.parse(source, target, k)
        notes.append("" if parsed.trees else "No tree of this model can have this target; it may be too long for one.")
        return Found([_tree(parsed, n, left_out) for n in range(len(parsed.trees))], notes, parsed)
    if question.show == SAMPLES:
        answers, before = [model.sample(source, question.seed)], f"seed {question.seed}, "
    else:
        answers, before = model.answers(source, k), ""
    notes.append("" if answers else "No answer has a probability above zero.")
    expected = target if question.is_judged else ""
    return Found([_answer(one, expected, before, left_out) for one in answers], notes)


def warm(model: Answers, k: int) -> None:
    """Ask everything once: what is compiled or imported at the first call is not waited for later."""
    source, target = (words.decode([len(words) - 1] * 4) for words in (model.source, model.target))
    for show in SHOWS:
        ask(model, Question(source, target, show), k)


def _answer(found: Explained, target: str, before: str, left_out: str) -> Shown:
    about = f"{before}probability {math.exp(found.log_prob):.3g}{left_out}"
    return Shown(found.source, found.text, about, found.tree, _verdict(found.text, target) if target else NOTHING)


def _verdict(text: str, target: str) -> Html:
    if text.split() == target.split():
        return tag("p", "✓ just the target", class_="right")
    return tag("p", "✗ not the target, which is ", tag("b", target), class_="wrong")


def _tree(parsed: Parsed, n: int, left_out: str) -> Shown:
    tree, share = parsed.trees[n]
    return Shown(parsed.source, parsed.text, f"probability {share:.3g} given the target{left_out}", tree)


def _about(parsed: Parsed) -> Html:
    """What is known of all trees of the target together."""
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
