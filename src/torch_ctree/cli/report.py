"""The reports that commands leave in the folders of runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from torch_ctree.cli.console import say
from torch_ctree.data.errors import in_one_line
from torch_ctree.experiments.beside import beside
from torch_ctree.training import TrainConfig
from torch_ctree.viewing.report import REPORT, write_run_report


def keep_report(folder: Path, config: TrainConfig, terminal: Console) -> None:
    """Write the report of a run, and say where it is."""
    if _is_kept(folder, config, terminal):
        say(terminal, f"report: {folder / REPORT}")


def keep_reports(runs: Sequence[tuple[Path, TrainConfig]], terminal: Console) -> None:
    """The same for many runs, in one line."""
    kept = [_is_kept(folder, config, terminal) for folder, config in runs]
    if kept and all(kept):
        say(terminal, f"reports: {REPORT} in the folder of each finished run")


def _is_kept(folder: Path, config: TrainConfig, terminal: Console) -> bool:
    """Whether there is one now; if not, it is said why."""
    try:
        write_run_report(folder, beside(config))
    except Exception as error:  # whatever it is, the run is done, and worth more than its report
        again = f"ctree report {shlex.quote(str(folder))}"
        say(terminal, f"no report: {in_one_line(error)}; this tries again: {again}")
        return False
    return True
