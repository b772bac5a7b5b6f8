"""What is on the disk of a run: each file may be missing, unfinished, or of another version."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from torch_ctree.data.disk import read_json
from torch_ctree.data.errors import DataError, in_one_line, shown
from torch_ctree.evaluation import Prediction, read_predictions
from torch_ctree.evaluation.evaluating import EVALUATION, PREDICTIONS

CONFIG, METRICS, WEIGHTS = "config.yaml", "metrics.csv", "model.safetensors"
WHAT = {
    CONFIG: "every setting",
    METRICS: "the metrics of every epoch",
    WEIGHTS: "the best model's weights",
    "config.json": "what the model is made of",
    "source.json": "the words it reads",
    "target.json": "the words it says",
    "last.ckpt": "to go on with training from",
    "previous.ckpt": "the one before, in case that one is damaged",
    "distilled.jsonl": "its answers to its training sources, for another model to learn from",
    PREDICTIONS: "every answer to the pairs it was tested on",
    EVALUATION: "how good these answers are",
}
"""The files of a run, and what they are for."""
Epoch = dict[str, float]
"""A row of the metrics; what is no number is left out."""


class MissingError(Exception):
    """Something is not there, or cannot be read.

    why: in a few words
    command: what makes it
    """

    def __init__(self, why: str, command: str) -> None:
        super().__init__(why)
        self.why, self.command = why, command


class RunFolder:
    """The folder of a run; what is asked of it is read then, once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.resolve().name
        self.train_again = f"ctree train --resume --run {quote(str(path))}"
        self.evaluate = f"ctree evaluate {quote(str(path))}"

    def _file(self, name: str, command: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise MissingError(f"{name} is not here", command)
        return path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """As they stand in the file."""
        path = self._file(CONFIG, "ctree train")
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise MissingError(f"{CONFIG} cannot be read ({in_one_line(error, 100)})", "ctree train") from error
        if not isinstance(found, dict):
            raise MissingError(f"{CONFIG} has {shown(found)} in place of settings", "ctree train")
        return found

    @cached_property
    def epochs(self) -> list[Epoch]:
        """Of all attempts, in their order."""
        path = self._file(METRICS, self.train_again)
        try:
            return read_epochs(path)
        except DataError as error:
            raise MissingError(str(error), self.train_again) from error

    @cached_property
    def evaluation(self) -> dict[str, Mapping[str, Any]]:
        """Set → how good its answers are."""
        path = self._file(EVALUATION, self.evaluate)
        try:
            found = read_json(path)
        except DataError as error:
            raise MissingError(f"{EVALUATION} is not whole", self.evaluate) from error
        if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
            raise MissingError(f"{EVALUATION} has {shown(found)} in place of results", self.evaluate)
        return found

    @cached_property
    def predictions(self) -> dict[str, list[Prediction]]:
        """Set → its answers, in the order of the file."""
        path = self._file(PREDICTIONS, self.evaluate)
        found: dict[str, list[Prediction]] = {}
        try:
            for one in read_predictions(path):
                found.setdefault(one.set, []).append(one)
        except DataError as error:
            raise MissingError(in_one_line(error, 200), self.evaluate) from error
        return found

    @property
    def is_of_scan(self) -> bool:
        """Whether its sources are SCAN's commands; no, where that is not known."""
        try:
            return str(self.settings["data"]["name"]).startswith("scan-")
        except (MissingError, LookupError, TypeError):
            return False

    @property
    def is_of_other_weights(self) -> bool:
        """Whether the model has changed since it was tested; no, where that cannot be known."""
        try:
            tested = {one["weights"] for one in self.evaluation.values() if "weights" in one}
            return bool(tested) and tested != {sha256((self.path / WEIGHTS).read_bytes()).hexdigest()}
        except (MissingError, OSError, TypeError):
            return False


def read_epochs(path: Path) -> list[Epoch]:
    """The rows of a file of metrics; a last one that was cut off is left out, and so is what is no number."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} cannot be read ({in_one_line(error, 100)})") from error
    found = [{name: value for name, value in row.items() if name and value is not None} for row in rows]
    found = [row for row in found if "epoch" in row]
    if not found:
        raise DataError(f"{path.name} has no epochs")
    return found


def _number(text: Any) -> float | None:
    """NaN and the infinities are numbers here: an epoch may have them."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def is_finite(value: Any) -> bool:
    """Whether something is a number that can be shown as one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
