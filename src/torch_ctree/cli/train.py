"""``ctree train``: a preset, a configuration or your own pairs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from rich.table import Table

from torch_ctree import training
from torch_ctree.cli.console import console, say
from torch_ctree.data.errors import place
from torch_ctree.training import TrainConfig, TrainingError
from torch_ctree.training.configuration import CONFIG, SECTIONS, parsed
from torch_ctree.training.presets import about

RUNS = Path("runs")


def train(
    preset: str | None = None,
    /,
    *,
    settings: Mapping[str, Mapping[str, str]],
    config: str | None = None,
    seed: int | None = None,
    run: str | None = None,
    resume: bool = False,
    list_: bool = False,
) -> None:
    """Train a model: a preset by its name, or on your own pairs with --data pairs.tsv.

    preset: the name of a run, such as scan-length (see --list)
    config: a YAML file with settings, in place of a preset or changing some of it
    seed: of the first weights, of dropout and of the order of the pairs (default: 0)
    run: the folder of the run (default: runs/NAME-SEED)
    resume: go on from the last checkpoint of the run; without a preset, with the settings it began with
    list_: list the presets
    """
    if list_:
        _list()
        return
    for flag, value in (("run", run), ("config", config)):
        if value == "":
            raise TrainingError(f"{flag}: got nothing; expected a path")
    layers = _layers(preset, config, run if resume else None)
    if seed is not None:
        layers.append({"seed": seed})
    layers.append(_typed(settings))
    chosen = training.build(training.merged(*layers))
    if not chosen.data.name:
        if resume:
            raise TrainingError("nothing to go on with; name a preset, or the folder of a run: --resume --run FOLDER")
        raise TrainingError("nothing to train on; name a preset (see 'ctree train --list') or --data pairs.tsv")
    name = preset or (_stem(chosen.data.name) if chosen.data.is_own or not config else Path(config).stem)
    folder = place(run) if run else RUNS / f"{name}-{chosen.seed}"
    _train(chosen, folder, resume)


def _layers(preset: str | None, config: str | None, run: str | None) -> list[dict[str, Any]]:
    """Settings from files, weaker ones first; those of a run that goes on where no others are named."""
    if preset and preset not in training.presets() and place(preset).exists():
        flag = "--config" if preset.endswith((".yaml", ".yml")) else "--data"
        raise TrainingError(f"{preset}: no such preset; did you mean {flag} {shlex.quote(preset)}?")
    files = [training.preset(preset)] if preset else []
    files += [place(config)] if config else []
    if not files and run:
        files = [place(run) / CONFIG]
        if not files[0].is_file():
            raise TrainingError(f"{run}: no run here to go on with; train it without --resume")
    return [training.read(file) for file in files]


def _typed(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """What was given on the command line, as a YAML file would give it."""
    return {
        section: {name: parsed(text, get_type_hints(SECTIONS[section])[name]) for name, text in given.items()}
        for section, given in settings.items()
    }


def _stem(name: str) -> str:
    """What a run on a user's own pairs is called."""
    return Path(name.partition(",")[0].removeprefix("hf:")).name.partition(".")[0] or "own"


def _train(config: TrainConfig, folder: Path, resume: bool) -> None:
    from torch_ctree.training.running import train as run  # noqa: PLC0415  (Lightning takes seconds to import)

    terminal, quoted = console(), shlex.quote(str(folder))
    try:
        best = run(config, folder, resume, terminal).best
    except KeyboardInterrupt:
        has_begun = (folder / CONFIG).exists()
        say(terminal, f"stopped; go on with: ctree train --resume --run {quoted}" if has_begun else "stopped")
        raise
    accuracy = f"validation accuracy {best['validation_accuracy']:.2%}"
    say(terminal, f"best: epoch {best['epoch']}, {accuracy}; the model is in {folder}")
    say(terminal, f"next: ctree evaluate {quoted}")


def _list() -> None:
    table = Table("preset", "what it is", box=None, header_style="bold", pad_edge=False)
    for name, path in training.presets().items():
        table.add_row(name, about(path))
    console(table).print(table)


def translated(arguments: Sequence[str]) -> list[str]:
    """``--data pairs.tsv`` is short for ``--data.name pairs.tsv``."""
    return [re.sub(r"^--data(?==|$)", "--data.name", argument) for argument in arguments]
