"""What a result file says of a trained model: its metrics, and some of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

from torch_ctree.data import Task
from torch_ctree.evaluation import (
    Bleu,
    Evaluation,
    Prediction,
    Share,
    by_cell,
    is_exact,
    predict_all,
    simplest_by_cell,
)
from torch_ctree.evaluation.cells import Cell
from torch_ctree.models import Seq2Seq
from torch_ctree.viewing.report.errors import grouped

T = TypeVar("T")

EXAMPLES = 3
"""Answers of each kind."""
TRANSLATIONS = 20
"""Of a translation the first so many answers, however they are, for their trees."""


def answered(model: Seq2Seq, task: Task, tf32: bool = True) -> dict[str, list[Prediction]]:
    """Set → its answers, of all that are neither for training nor for choosing.

    tf32: whether a GPU may multiply in TF32
    """
    size = at_a_time(model)
    return {name: predict_all(model, task, name, batch_size=size, tf32=tf32) for name in task.tested}


def at_a_time(model: Seq2Seq) -> int:
    """So many sentences, where a model answers many."""
    small = model.device.type != "cuda" or model.decoder.needs_phrases  # whose charts take megabytes a pair
    return 50 if small else 1000


def scored(
    answers: Mapping[str, Sequence[Prediction]], evaluations: Mapping[str, Evaluation], with_cells: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics of the test set, those of other sets within, and examples from each set.

    answers, evaluations: by set
    with_cells: also by the kinds of SCAN's phrases
    """
    found = {name: _metrics(evaluations[name], some) for name, some in answers.items()}
    examples = {name: _examples(some) for name, some in answers.items()}
    for name, some in answers.items():
        if evaluations[name].bleu is not None:
            examples[name]["first"] = _first(some, TRANSLATIONS)
    if with_cells:
        for name, some in answers.items():
            found[name]["cells"] = _nested(by_cell(some), _share)
            examples[name]["cells"] = _nested(simplest_by_cell(some), _example)
    metrics = found.pop("test")
    return metrics | found, examples


def _metrics(result: Evaluation, predictions: Sequence[Prediction]) -> dict[str, Any]:
    return {
        "pairs": result.pairs,
        "exact_match": result.exact_match,
        "first_word": result.first_word,
        "token_accuracy": result.token_accuracy,
        "loss": result.loss,
        "by_length": {str(length): _share(share) for length, share in result.by_length.items()},
        "tree_f1": None if result.tree_f1 is None else result.tree_f1.sentence_f1,
        "errors": {group.kind.name: len(group.predictions) for group in grouped(predictions)},
        **_bleu("bleu", result.bleu),
        **_bleu("bleu_written", result.bleu_written),
        **({} if result.phrases is None else {"phrases": asdict(result.phrases)}),
        **({} if result.target_phrases is None else {"target_phrases": asdict(result.target_phrases)}),
    }


def _bleu(name: str, found: Bleu | None) -> dict[str, float | str]:
    """With the signature, of which a score means little without."""
    return {} if found is None else {name: found.score, f"{name}_signature": found.signature}


def _share(share: Share) -> dict[str, float]:
    return {"right": share.right, "total": share.total, "accuracy": share.accuracy}


def _nested(values: Mapping[Cell, T], written: Callable[[T], Any]) -> dict[str, dict[str, Any]]:
    """What a phrase does → how often → a value."""
    found: dict[str, dict[str, Any]] = {}
    for (kind, times), value in values.items():
        found.setdefault(kind, {})[times] = written(value)
    return found


def _examples(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The first that are wrong, and the first that are right."""
    return {
        "wrong": _first(prediction for prediction in predictions if not is_exact(prediction)),
        "right": _first(prediction for prediction in predictions if is_exact(prediction)),
    }


def _first(predictions: Iterable[Prediction], most: int = EXAMPLES) -> list[dict[str, str | None]]:
    return [_example(prediction) for prediction in islice(predictions, most)]


def _example(prediction: Prediction) -> dict[str, str | None]:
    return {name: getattr(prediction, name) for name in ("source", "target", "output", "tree")}
