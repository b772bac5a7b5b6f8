"""Many runs side by side on one machine, and what is shown of them.

Each run is what it is alone; only the machine is shared. Where a run gets only a part of a GPU, products may be cut
into other pieces than alone, so that results are the same within rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torch_ctree.training.configuration import TrainConfig
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.pool import Lines, Outcome, Tell, Watcher, cores, run_together
from torch_ctree.training.sharing import has_gpu, shared_gpu

Best = dict[str, float]
"""The metrics of a run's best epoch."""
ON_A_GPU = 10
"""Runs at once on a GPU, unless told otherwise."""


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

    Those on a GPU share it. On a terminal a table shows how they are doing, elsewhere lines do.

    runs: on one device each
    at_once: so many
    console: where to say how it goes; by default the terminal
    """
    console = console or Console(highlight=False)
    for run in runs:
        for name in ("devices", "num_nodes"):
            if (got := getattr(run.config.trainer, name)) > 1:
                raise TrainingError(f"trainer.{name}: got {got}; expected 1 where many runs go side by side")

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    side_by_side = min(at_once, len(runs))
    several_on_gpu = side_by_side > 1 and any(_on_gpu(run.config) for run in runs)
    precisions = [run.config.trainer.precision for run in runs]
    board = (_Table if console.is_terminal else _Log)(runs, tell)
    with (
        shared_gpu(tell, side_by_side, precisions) if several_on_gpu else nullcontext({}) as variables,
        Live(board, console=console, transient=True) if isinstance(board, _Table) else nullcontext(),
    ):
        return run_together(_train, runs, at_once, variables, board)


def _train(run: Run, tell: Tell) -> Best:
    from torch_ctree.training.running import train  # noqa: PLC0415  (Lightning takes seconds to import)

    console = Console(file=Lines(tell), force_terminal=False, highlight=False, emoji=False)
    return train(run.config, run.folder, run.resume, console).best


class _Log(Watcher):
    """Every line, with the run it is of."""

    def __init__(self, runs: Sequence[Run], tell: Tell) -> None:
        self.names, self.tell = [run.folder.name for run in runs], tell
        self.warnings: set[str] = set()

    def said(self, n: int, line: str) -> None:
        """As it is."""
        self.tell(f"{self.names[n]}: {line}")

    def warned(self, n: int, line: str) -> None:
        """What all of them say is said once."""
        if line not in self.warnings:
            self.warnings.add(line)
            self.tell(f"{self.names[n]}: {line}")

    def ended(self, n: int, outcome: Outcome[Run, Best]) -> None:
        """How."""
        said = f"failed: {outcome.error}"
        if (best := outcome.result) is not None:
            said = f"done: best epoch {best['epoch']}, validation accuracy {best['validation_accuracy']:.2%}"
        self.tell(f"{self.names[n]}: {said}; {outcome.seconds:,.0f} s")


class _Table(_Log):
    """What each run has said last, for a terminal; only failures and warnings stay on it."""

    def __init__(self, runs: Sequence[Run], tell: Tell) -> None:
        super().__init__(runs, tell)
        self.states, self.lines = ["waiting"] * len(runs), [""] * len(runs)

    def begun(self, n: int) -> None:
        """With this run."""
        self.states[n] = "training"

    def said(self, n: int, line: str) -> None:
        """In place of what it said before."""
        self.lines[n] = line

    def ended(self, n: int, outcome: Outcome[Run, Best]) -> None:
        """How."""
        self.states[n] = "done" if outcome.error is None else "failed"
        if outcome.error is not None:
            super().ended(n, outcome)

    def __rich__(self) -> Table:
        """As it is now."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for header, is_whole in (("run", True), ("state", True), ("latest", False)):
            table.add_column(header, no_wrap=is_whole)
        for name, state, line in zip(self.names, self.states, self.lines, strict=True):
            table.add_row(Text(name), state, Text(line, no_wrap=True, overflow="ellipsis"))
        return table
