"""Many runs side by side on one machine, and what is shown of them.

Each run is what it is alone; only the machine is shared. Where a run gets only a part of a GPU, products may be cut
into other pieces than alone, so that results are the same within rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torch_ctree.training.attempts import in_words
from torch_ctree.training.configuration import TrainConfig
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.pool import Lines, Outcome, Tell, Watcher, cores, run_together
from torch_ctree.training.sharing import has_gpu, shared_gpu

Best = dict[str, float]
"""The metrics of a run's best epoch."""
ON_A_GPU = 10
"""Runs at once on a GPU, unless told otherwise."""
SHOWN = 20
"""Of so many runs a terminal shows each; of more, those that are being trained."""


class Training(Protocol):
    """A job that trains."""

    @property
    def config(self) -> TrainConfig:
        """With what."""
        ...


T = TypeVar("T", bound=Training)
R = TypeVar("R")


@dataclass(frozen=True)
class Run:
    """What ``running.train`` takes."""

    config: TrainConfig
    folder: Path
    resume: bool = False


def default_at_once(config: TrainConfig) -> int:
    """How many runs like this one go well together on this machine."""
    return ON_A_GPU if _on_gpu(config) else cores()


def _on_gpu(config: TrainConfig) -> bool:
    return config.trainer.may_use_gpu and has_gpu()


def train_together(runs: Sequence[Run], at_once: int, console: Console | None = None) -> list[Outcome[Run, Best]]:
    """Train many models side by side, each as ``running.train`` does it alone → what became of each, in their order.

    runs: on one device each
    at_once: so many
    console: where to say how it goes; by default the terminal
    """
    console = console or Console(highlight=False)
    with board([run.folder.name for run in runs], _summary, console) as shown:
        return side_by_side(_train, runs, at_once, shown.tell, shown)


def _train(run: Run, tell: Tell) -> Best:
    from torch_ctree.training.running import train  # noqa: PLC0415  (Lightning takes seconds to import)

    return train(run.config, run.folder, run.resume, telling(tell)).best


def _summary(best: Best) -> str:
    return f"best epoch {best['epoch']}, validation {in_words(best)}"


def telling(tell: Tell) -> Console:
    """A terminal for a run in a process of a pool, which passes on what is said on it."""
    return Console(file=Lines(tell), force_terminal=False, highlight=False, emoji=False)


def side_by_side(
    work: Callable[[T, Tell], R], jobs: Sequence[T], at_once: int, tell: Tell, watcher: Watcher
) -> list[Outcome[T, R]]:
    """Do jobs that train as ``run_together`` does any; those on a GPU share it.

    jobs: on one device each
    tell: gets a line where a GPU cannot be shared
    watcher: is told what happens to the jobs
    """
    configs = [job.config for job in jobs]
    for config in configs:
        for name in ("devices", "num_nodes"):
            if (got := getattr(config.trainer, name)) > 1:
                raise TrainingError(f"trainer.{name}: got {got}; expected 1 where many runs go side by side")
    count = min(at_once, len(jobs))
    several_on_gpu = count > 1 and any(map(_on_gpu, configs))
    precisions = [config.trainer.precision for config in configs]
    with shared_gpu(tell, count, precisions) if several_on_gpu else nullcontext({}) as variables:
        return run_together(work, jobs, at_once, variables, watcher)


# --- what is shown ----------------------------------------------------------------------------------------------------


@contextmanager
def board(names: Sequence[str], summary: Callable[[Any], str], console: Console) -> Iterator[Log]:
    """Who is told what happens to jobs, and shows it: on a terminal in a table, elsewhere in lines.

    names: of the jobs
    summary: a job's result in a few words; nothing where it was stopped before it had one
    """

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield Log(names, summary, tell)
        return
    table = Board(names, summary, tell)
    with Live(table, console=console, transient=True):
        yield table


class Log(Watcher):
    """Every line, with the run it is of."""

    def __init__(self, names: Sequence[str], summary: Callable[[Any], str], tell: Tell) -> None:
        self.names, self.summary, self.tell = names, summary, tell
        self.warnings: set[str] = set()

    def said(self, n: int, line: str) -> None:
        """As it is."""
        self.tell(f"{self.names[n]}: {line}")

    def warned(self, n: int, line: str) -> None:
        """What all of them say is said once."""
        if line not in self.warnings:
            self.warnings.add(line)
            self.tell(f"{self.names[n]}: {line}")

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        """How."""
        found = "" if outcome.error is not None else self.summary(outcome.result)
        said = f"failed: {outcome.error}" if outcome.error is not None else f"done: {found}" if found else ""
        if said:
            self.tell(f"{self.names[n]}: {said}; {outcome.seconds:,.0f} s")


class Board(Log):
    """What each run has said last, for a terminal; only failures and warnings stay on it."""

    def __init__(self, names: Sequence[str], summary: Callable[[Any], str], tell: Tell) -> None:
        super().__init__(names, summary, tell)
        self.states, self.lines = ["waiting"] * len(names), [""] * len(names)

    def begun(self, n: int) -> None:
        """With this run."""
        self.states[n] = "training"

    def said(self, n: int, line: str) -> None:
        """In place of what it said before."""
        self.lines[n] = line

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        """How."""
        if outcome.error is not None:
            self.states[n] = "failed"
            super().ended(n, outcome)
        else:
            self.states[n] = "done" if self.summary(outcome.result) else "stopped"

    def __rich__(self) -> RenderableType:
        """As it is now."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for header, is_whole in (("run", True), ("state", True), ("latest", False)):
            table.add_column(header, no_wrap=is_whole)
        for name, state, line in zip(self.names, self.states, self.lines, strict=True):
            if len(self.names) <= SHOWN or state == "training":
                table.add_row(Text(name), state, Text(line, no_wrap=True, overflow="ellipsis"))
        if len(self.names) <= SHOWN:
            return table
        return Group(table, ", ".join(f"{number} {state}" for state, number in Counter(self.states).items()))
