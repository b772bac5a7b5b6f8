"""Knowledge distillation: to learn from another model's answers in place of the true targets (Kim and Rush, 2016).

One source may have many good targets, of which a training set has one. What a trained model answers is more regular, so
that a model which says all words at once has less to choose between.
"""

from __future__ import annotations

from pathlib import Path

from torch_ctree.data.errors import DataError, count, place, shown
from torch_ctree.data.files import read_jsonl
from torch_ctree.data.pairs import Pairs

DISTILLED = "distilled.jsonl"
"""What ``ctree distill`` leaves in the folder of the run that was asked."""
AGAIN = "make it with 'ctree distill' from a model of the same task"


def distilled(train: Pairs, name: str | Path) -> Pairs:
    """Training pairs with another model's answers for targets.

    train: the pairs as they are
    name: the file that ``ctree distill`` wrote, or the folder of the run that it is in
    """
    path = place(name)
    if path.is_dir():
        path /= DISTILLED
    if not path.exists():
        raise DataError(f"{path}: is not here; {AGAIN}")
    found = read_jsonl(path)
    if len(found) != len(train):
        raise DataError(f"{path}: answers to {count(len(found), 'source')}; expected {len(train):,}; {AGAIN}")
    for n, (expected, got) in enumerate(zip(train.sources(), found.sources(), strict=True), 1):
        if got != expected:
            raise DataError(f"{path}, line {n}: answers {shown(got)}; expected {shown(expected)}; {AGAIN}")
    return found
