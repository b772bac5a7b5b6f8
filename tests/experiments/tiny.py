"""The presets of the tables, so small that a sweep takes seconds; and results that nobody had to wait for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import Forks
from tests.training.runs import SMALL, command, data
from torch_ctree.experiments import TABLES, Result
from torch_ctree.training import merged, pool

SCAN, QUESTIONS = TABLES["scan"], TABLES["questions"]
PRESETS = sys.modules["torch_ctree.training.presets"]  # training has a function of that name
WILD = {"optimisation": {"lr": 1e30, "gradient_norm": 1e30}}
"""With these, training fails."""


def small_presets(folder: Path, **changes: dict[str, Any]) -> Path:
    """Every preset of Table 1 as a tiny run on tiny pairs → their folder.

    changes: settings of some presets, by their names with underscores
    """
    folder.mkdir(exist_ok=True)
    for row in SCAN.own:
        for name in row.presets.values():
            settings = merged(SMALL, {"data": data(folder)}, changes.get(name.replace("-", "_"), {}))
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    return folder


def small_here(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """From now on these are the presets, each run has one thread, and an empty folder is where we are → the presets."""
    presets = small_presets(folder / "presets")
    patch.setattr(PRESETS, "CHECKOUT", presets)
    patch.setenv("OMP_NUM_THREADS", "1")
    (folder / "here").mkdir()
    patch.chdir(folder / "here")
    return presets


def reproduce(presets: Path, arguments: list[str], output: Path) -> None:
    """``ctree reproduce`` in a process of its own, which has imported everything; so have those that it makes."""
    pool.SPAWN = Forks()  # pyright: ignore[reportAttributeAccessIssue]
    PRESETS.CHECKOUT = presets  # pyright: ignore[reportAttributeAccessIssue]
    command(["reproduce", *arguments], output)


def result(row: str = "OM-CTree", split: str = "length", seed: int = 0, value: float = 0.5, **more: Any) -> Result:
    """Of a run on Table 1 that has this accuracy."""
    share = {"right": round(100 * value), "total": 100, "accuracy": value}
    metrics = {
        "pairs": 100,
        "exact_match": value,
        "first_word": 1.0,
        "token_accuracy": 0.75,
        "loss": None,
        "by_length": {"24": share, "25": share},
        "tree_f1": value,
        "cells": {"around": {"thrice": share}},
    }
    return {
        **{
            "task": "scan",
            "row": row,
            "split": split,
            "seed": seed,
            "command": "ctree reproduce scan",
            "commit": "abc",
        },
        **{"hardware": "a machine", "seconds": 61.0, "settings": {}, "at_once": 2, "epochs": 3, "metrics": metrics},
        **more,
    }


def failed(error: str = "out of memory", **more: Any) -> Result:
    """Of a run that failed."""
    found = result(**more) | {"error": error, "hardware": None}
    del found["metrics"]
    return found
