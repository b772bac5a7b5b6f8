"""Folders of runs that nobody had to wait for."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch_ctree.evaluation import Prediction, write_predictions

CONFIG = """\
seed: 3
data: {name: scan-length, root: null}
model: {encoder: ordered-memory, decoder: ctree, width: 16}
trainer: {fast: true}
"""
METRICS = """\
epoch,step,train_loss,validation_loss,validation_accuracy,learning_rate,attempt
1,10,1.5,nan,0.25,0.001,1
2,20,inf,0.5,0.75,0.001,1
3,30,0.25,0.125,0.5,0.001,2
"""
WEIGHTS = b"weights"


def answer(output: str, target: str, log_prob: float = -1.0, row: int = 0, **more: Any) -> Prediction:
    """To a command of SCAN."""
    return Prediction("test", row, "walk and jump twice", target, output, log_prob, **more)


SOME = [
    answer("A B", "A B", -0.5, 0, tree="(· A B)", target_tree="(· A B)"),
    answer("A B B", "A B", -0.25, 1, tree="(· A (· B B))", target_tree="(· A B)"),
    answer("", "A", -3.0, 2, target_tree="(· A)"),
    answer("A C", "A B", float("nan"), 3, tree="(· A C)"),
]
EVALUATION: dict[str, Any] = {
    "test": {
        "weights": sha256(WEIGHTS).hexdigest(),
        "pairs": 4,
        "exact_match": 0.25,
        "first_word": 0.75,
        "token_accuracy": 0.5,
        "loss": None,
        "by_length": {"1": {"right": 0, "total": 1}, "2": {"right": 1, "total": 3}},
        "bleu": {"score": 12.5, "signature": "nrefs:1|case:mixed"},
        "tree_f1": {"sentence_f1": 0.8125, "sentences": 3},
        "baselines": {"right-branching": 0.5, "balanced": 0.375},
    }
}


def write_run(folder: Path, predictions: list[Prediction] | None = None, **evaluation: Any) -> Path:
    """A run with all of its files.

    evaluation: what is otherwise in the evaluation of the test set
    """
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "metrics.csv").write_text(METRICS)
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    write_predictions(folder / "predictions.jsonl", SOME if predictions is None else predictions)
    (folder / "evaluation.json").write_text(json.dumps({"test": EVALUATION["test"] | evaluation}))
    return folder
