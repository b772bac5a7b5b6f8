"""``ctree train``: a preset, a configuration or your own pairs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, get_type_hints

from rich.table import Table
from rich.text import Text

from torch_ctree import training
from torch_ctree.cli.console import console, say
from torch_ctree.cli.report import keep_report, keep_reports
from torch_ctree.data.errors import check_whole, count, place, shown, told
from torch_ctree.training import TrainConfig, TrainingError
from torch_ctree.training.attempts import in_words
from torch_ctree.training.configuration import CONFIG, SECTIONS
from torch_ctree.training.pool import Outcome
from torch_ctree.training.preparation import prepare
from torch_ctree.training.presets import about
from torch_ctree.training.reading import parsed
from torch_ctree.training.together import Best, Run, default_at_once, train_together

RUNS = Path("runs")
MOST_SEEDS = 1000
"""More are a mistake in typing."""


def train(
    preset: str | None = None,
    /,
    *,
    settings: Mapping[str, Mapping[str, str]],
    config: str | None = None,
    seed: int | None = None,
    seeds: str | None = None,
    at_once: int | None = None,
    run: str | None = None,
    resume: bool = False,
    small: bool = False,
    list_: bool = False,
) -> None:
    """Train a model: a preset by its name, or on your own pairs with --data pairs.tsv.

    preset: the name of a run, such as scan-length (see --list)
    config: a YAML file with settings, in place of a preset or changing some of it
    seed: of the first weights, of dropout and of the order of the pairs (default: 0)
    seeds: train one model for each, side by side, in folders NAME-SEED: 0-9, or 0,3,7, or 0-4,8
    at_once: with --seeds, how many of them side by side (default: on a GPU up to 10, on a CPU one for each core)
    run: the folder of the run (default: runs/NAME-SEED); with --seeds, the folder that theirs go into (default: runs)
    resume: go on from the last checkpoint of the run; without a preset, with the settings it began with; with --seeds,
        go on with those that have begun, and begin the others
    small: a smaller model that a CPU can train, where the preset has one
    list_: list the presets
    """
    if list_:
        _list()
        return
    if small:
        if preset is None:
            raise TrainingError("small: no preset is named; expected one with it, such as multi30k --small")
        preset = training.small(preset)
    for flag, value in (("run", run), ("config", config)):
        if value == "":
            raise TrainingError(f"{flag}: got nothing; expected a path")
    many = _many(seed, seeds, at_once)
    layers = _layers(preset, config, run if resume and not many else None)
    if seed is not None:
        layers.append({"seed": seed})
    layers.append(_typed(settings))
    chosen = training.build(training.merged(*layers))
    if not chosen.data.name:
        if resume:
            raise TrainingError("nothing to go on with; name a preset, or the folder of a run: --resume --run FOLDER")
        raise TrainingError("nothing to train on; name a preset (see 'ctree train --list') or --data pairs.tsv")
    name = preset or (_stem(chosen.data.name) if chosen.data.is_own or not config else Path(config).stem)
    if many:
        above = place(run) if run else RUNS
        runs = [Run(replace(chosen, seed=one), above / f"{name}-{one}") for one in many]
        _train_many(runs, at_once, resume)
        return
    folder = place(run) if run else RUNS / f"{name}-{chosen.seed}"
    _train(chosen, folder, resume)


def _many(seed: int | None, seeds: str | None, at_once: int | None) -> list[int]:
    """The seeds of runs side by side; none where there is one run alone."""
    if seeds is None:
        if at_once is not None:
            raise TrainingError(f"at-once: got {at_once}; expected --seeds with it, such as --seeds 0-9")
        return []
    if seed is not None:
        raise TrainingError(f"seed: got {seed} and --seeds {seeds}; expected one of the two")
    if at_once is not None:
        check_whole("at-once", at_once, 1)
    return parse_seeds(seeds)


def parse_seeds(text: str) -> list[int]:
    """``0-4,8`` → 0, 1, 2, 3, 4, 8; each once."""
    found: dict[int, None] = {}
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part, re.ASCII)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, -1)
        if not first <= last < first + MOST_SEEDS:
            most = f", {MOST_SEEDS:,} at most" if first <= last else ""
            raise TrainingError(f"seeds: got {shown(text)}; expected seeds such as 0-9 or 0,3,7{most}")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def _layers(preset: str | None, config: str | None, run: str | None) -> list[dict[str, Any]]:
    """Settings from files, weaker ones first; those of a run that goes on where no others are named."""
    if preset and preset not in training.presets() and preset not in training.ALIASES and place(preset).exists():
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
    say(terminal, f"best: epoch {best['epoch']}, validation {in_words(best)}; the model is in {folder}")
    keep_report(folder, config, terminal)
    say(terminal, f"next: ctree evaluate {quoted}")


def _train_many(runs: Sequence[Run], at_once: int | None, resume: bool) -> None:
    """Side by side; what is wrong with all of them is said before any begins."""
    config, above, terminal = runs[0].config, runs[0].folder.parent, console()
    if above.is_file():
        raise TrainingError(f"{above}: a file, not a folder for runs; name another (--run)")
    if resume:
        runs = [replace(run, resume=(run.folder / CONFIG).exists()) for run in runs]
    else:
        _check_new([run.folder for run in runs])
    prepare(config, config.data.load())
    try:
        outcomes = train_together(runs, at_once or default_at_once(config), terminal)
    except KeyboardInterrupt:
        has_begun = any((run.folder / CONFIG).exists() for run in runs)
        say(terminal, "stopped; go on with the same command and --resume" if has_begun else "stopped")
        raise
    _show(outcomes)


def _check_new(folders: Sequence[Path]) -> None:
    """Never write over a run."""
    with told():
        taken = [folder for folder in folders if folder.is_file() or (folder.is_dir() and any(folder.iterdir()))]
    if taken:
        more = f" (and in {len(taken) - 1} more)" if len(taken) > 1 else ""
        raise TrainingError(
            f"{taken[0]}: there is a run already{more}; go on with it (--resume), or name another folder (--run)"
        )


def _show(outcomes: Sequence[Outcome[Run, Best]]) -> None:
    """What came out; status 1 where a run failed."""
    table = _outcome_table(outcomes)
    terminal = console(table)
    terminal.print(table)
    done = [(outcome.job, outcome.result) for outcome in outcomes if outcome.result is not None]
    if done:
        for line in _summaries([best for _, best in done]):
            say(terminal, line)
    failed = [outcome for outcome in outcomes if outcome.result is None]
    for outcome in failed:
        say(terminal, f"{outcome.job.folder} failed: {outcome.error}")
    if done:
        keep_reports([(run.folder, run.config) for run, _ in done], terminal)
        say(terminal, f"next: ctree evaluate {shlex.quote(str(done[0][0].folder))}")
    if failed:
        say(
            terminal,
            f"{len(failed)} of {count(len(outcomes), 'run')} failed; the same command with --resume tries again",
        )
        raise SystemExit(1)


def _outcome_table(outcomes: Sequence[Outcome[Run, Best]]) -> Table:
    """One line for each seed."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    scored = ["BLEU"] if any("validation_bleu" in (outcome.result or {}) for outcome in outcomes) else []
    for name in ("seed", "best epoch", "validation accuracy", *scored, "seconds"):
        table.add_column(name, justify="right")
    table.add_column("folder")
    for outcome in outcomes:
        found = ["", "failed", *[""] * len(scored)]
        if (best := outcome.result) is not None:
            score = [f"{best['validation_bleu']:.2f}" for _ in scored]
            found = [f"{best['epoch']}", f"{best['validation_accuracy']:.2%}", *score]
        table.add_row(f"{outcome.job.config.seed}", *found, f"{outcome.seconds:,.0f}", Text(str(outcome.job.folder)))
    return table


def _summaries(bests: Sequence[Best]) -> list[str]:
    """Of the runs together."""
    scores = [best["validation_bleu"] for best in bests if "validation_bleu" in best]
    found = {"accuracy": ([best["validation_accuracy"] for best in bests], ".2%"), "BLEU": (scores, ".2f")}
    return [f"validation {name} {_middle(values, form)}" for name, (values, form) in found.items() if values]


def _middle(values: Sequence[float], form: str) -> str:
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{mean(values):{form}} ± {stdev(values):{form}} (mean and standard deviation of {len(values)} runs)"


def _list() -> None:
    table = Table("preset", "what it is", box=None, header_style="bold", pad_edge=False)
    for name, path in training.presets().items():
        table.add_row(name, about(path))
    for short, name in training.ALIASES.items():
        table.add_row(short, f"the same as {name}")
    console(table).print(table)


def translated(arguments: Sequence[str]) -> list[str]:
    """``--data pairs.tsv`` is short for ``--data.name pairs.tsv``."""
    return [re.sub(r"^--data(?==|$)", "--data.name", argument) for argument in arguments]
