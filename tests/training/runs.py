"""Tiny runs, and processes to kill."""

import os
import resource
import signal
from io import StringIO
from itertools import permutations, product
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.processes import write_into
from torch_ctree import cli
from torch_ctree.training import TrainConfig, build, merged
from torch_ctree.training.running import Finished
from torch_ctree.training.running import train as run

WORDS = {"walk": "WALK", "run": "RUN", "jump": "JUMP", "look": "LOOK"}
TIMES = {"": 1, " twice": 2, " thrice": 3}
SMALL: dict[str, Any] = {
    "model": {"width": 8, "dropout": 0.1, "attention_dropout": 0.1},
    "optimisation": {"max_epochs": 3, "batch_size": 9, "lr": 1e-2, "checkpoint_steps": 2},
    "trainer": {"accelerator": "cpu"},  # on a machine with a GPU too
}


def pairs() -> list[tuple[str, str]]:
    """48 commands and their actions."""
    alone = [(f"{word}{times}", " ".join([WORDS[word]] * TIMES[times])) for word, times in product(WORDS, TIMES)]
    both = [
        (f"{one}{times} and {two}", " ".join([WORDS[one]] * TIMES[times] + [WORDS[two]]))
        for (one, two), times in product(permutations(WORDS, 2), TIMES)
    ]
    return alone + both


def write_pairs(path: Path, lines: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in lines))
    return path


def data(folder: Path) -> dict[str, str]:
    """Files of 40 pairs to train on and 13 to validate on, some of them trained on."""
    train, validation = folder / "pairs.tsv", folder / "validation.tsv"
    if not train.exists():
        write_pairs(validation, pairs()[:5] + pairs()[40:])
        write_pairs(train, pairs()[:40])
    return {"name": str(train), "validation": str(validation), "test": str(validation)}


def settings(folder: Path, **changes: Any) -> TrainConfig:
    """A run on that data; a change is of a section, or the seed."""
    return build(merged(SMALL, {"data": data(folder)}, changes))


def train(config: TrainConfig, folder: Path, resume: bool = False) -> tuple[Finished, str]:
    """Run it here → what came out, and what it said."""
    said = StringIO()
    return run(config, folder, resume, Console(file=said, width=200)), said.getvalue()


def outcome(folder: Path) -> tuple[bytes, bytes]:
    """What must not depend on how often a run was killed."""
    return (folder / "metrics.csv").read_bytes(), (folder / "model.safetensors").read_bytes()


def flags(config: TrainConfig) -> list[str]:
    """A run as arguments of ``ctree train``."""
    default = TrainConfig()
    return [
        f"--{section}.{name}={value}"
        for section in ("data", "model", "optimisation", "trainer")
        for name, value in vars(getattr(config, section)).items()
        if value != getattr(getattr(default, section), name)
    ]


# --- in another process -----------------------------------------------------------------------------------------------


def go_on(config: TrainConfig, folder: Path) -> None:
    """Begin the run, or go on with it."""
    run(config, folder, (folder / "config.yaml").exists(), Console(quiet=True))


def killed_before_renaming(config: TrainConfig, folder: Path, n: int) -> None:
    """Run, but be killed just before the n-th file gets its name; nothing of Python's is run after that."""
    replace, left = os.replace, [n]

    def replace_or_die(source: Any, target: Any) -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        replace(source, target)

    os.replace = replace_or_die
    go_on(config, folder)


def command(arguments: list[str], output: Path, most_bytes: int | None = None) -> None:
    """``ctree`` with its output in a file.

    most_bytes: no file may be longer; writing then fails as on a full disk
    """
    write_into(output)
    if most_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    cli.main(arguments)
