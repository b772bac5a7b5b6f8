"""Knowledge distillation: a trained model's answers to its training sources, for another one to learn from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch_ctree.data import Pairs
from torch_ctree.data.files import is_text, write_jsonl
from torch_ctree.evaluation.answering import answer_all
from torch_ctree.models import Seq2Seq


class Taught(NamedTuple):
    """What the answers are like."""

    answers: int
    same: int
    """So many are the true target."""
    kept: int
    """To so many sources there was no answer: the true target stands in its place."""


def write_answers(
    model: Seq2Seq,
    train: Pairs,
    path: Path,
    *,
    batch_size: int = 100,
    depth: int | None = None,
    tf32: bool = True,
    tell: Callable[[int], object] = lambda answered: None,
) -> Taught:
    """Write what a model answers to training sources into a file, for ``data.distilled``.

    path: its name ends in .jsonl
    depth, tf32, tell: as in ``answer_all``
    """
    answers = answer_all(model, train.sources(), batch_size=batch_size, depth=depth, tf32=tf32, tell=tell)
    targets = [answer if is_text(answer) else target for answer, target in zip(answers, train.targets(), strict=True)]
    write_jsonl(path, zip(train.sources(), targets, strict=True))
    same = sum(" ".join(a.split()) == " ".join(b.split()) for a, b in zip(answers, train.targets(), strict=True))
    return Taught(len(answers), same, sum(not is_text(answer) for answer in answers))
