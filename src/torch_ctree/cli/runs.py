"""The folders of runs, as commands name them."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import torch

from torch_ctree import training
from torch_ctree.data.errors import place, told
from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.models.pretrained import EXAMPLE, HUB, SHIPPED, folder_of
from torch_ctree.training import TrainConfig, TrainingError
from torch_ctree.training.configuration import CONFIG


def open_model(run: str, device: str) -> Seq2Seq:
    """The model of a run, or the one that ships."""
    if not run:
        raise ModelError("run: got nothing; expected the folder of a run")
    with told():
        is_there = run.startswith(HUB) or folder_of(run).is_dir()
    if not is_there:
        near = get_close_matches(run, [str(path) for path in Path("runs").glob("*/")], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "train one first: ctree train --list"
        what = "a file, not the folder of a run" if place(run).exists() else "no such run"
        raise ModelError(f"{run}: {what}; {hint}; or try the one that ships: {EXAMPLE}")
    there = "cuda" if torch.cuda.is_available() else "cpu"
    device = there if device == "auto" else device
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        expected = "cpu" if there == "cpu" else "cpu or cuda"
        raise ModelError(f"device: got {device!r}, which is not here; expected {expected}") from error
    return Seq2Seq.from_pretrained(run).to(device)


def settings_of(run: str, root: str | None = None) -> TrainConfig:
    """What a run was trained with.

    The test set of the model that ships was drawn by seed. Where official files are, theirs would have much of what it
    was trained on; so they are not looked for.

    root: another folder with data files
    """
    folder = folder_of(run)
    path = folder / CONFIG
    if not path.is_file():
        raise TrainingError(f"{run}: no run of 'ctree train', {CONFIG} is missing; its test set is not known")
    config = training.build(training.read(path))
    root = str(folder) if folder == SHIPPED and root is None else root
    return config if root is None else replace(config, data=replace(config.data, root=root))


def check_count(name: str, value: int, most: int | None = None) -> None:
    """A number of things."""
    if value < 1 or (most is not None and value > most):
        raise ModelError(f"{name}: got {value}; expected {f'1 to {most:,}' if most else '1 or more'}")
