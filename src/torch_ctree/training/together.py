"""Many runs side by side on one machine: a pool of processes, and what it shows.

Each run is exactly what it is alone; only the machine is shared.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torch_ctree.data.errors import DataError, in_one_line
from torch_ctree.models import ModelError
from torch_ctree.training.configuration import TrainConfig
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.sharing import environment, has_gpu, shared_gpu

J = TypeVar("J")
R = TypeVar("R")
Tell = Callable[[str], None]
Best = dict[str, float]
"""The metrics of a run's best epoch."""
SPAWN = get_context("spawn")
ON_A_GPU = 10
"""Runs at once on a GPU, unless told otherwise."""
DIED = "the process died"
ENDINGS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None))
"""How a process is ended, and the seconds it is given to obey: first so that a run stops in order."""


# --- any work ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome(Generic[J, R]):
    """What became of a job: a result, or an error in one line."""

    job: J
    result: R | None
    error: str | None
    seconds: float


class Watcher:
    """Is told what happens to each job, by its place in the list, as it happens. Any method may stay as it is."""

    def begun(self, n: int) -> None:
        """A process has begun with it."""

    def said(self, n: int, line: str) -> None:
        """It has told something, or printed it."""

    def warned(self, n: int, line: str) -> None:
        """There is a line on its error output."""

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        """It is done, or has failed."""


def run_together(
    work: Callable[[J, Tell], R],
    jobs: Sequence[J],
    at_once: int,
    variables: Mapping[str, str] | None = None,
    watcher: Watcher | None = None,
) -> list[Outcome[J, R]]:
    """Do jobs in several processes → what became of each, in their order.

    A process does one job after another, since to start one takes seconds. A job that raises an error, or takes its
    process down with it, has failed; the others go on, in a new process where need be. Ctrl-C ends all processes, and
    they do not outlive this one either.

    work: does a job, and may tell lines about it on the way; a function that can be imported by its name
    jobs: anything that can be pickled; so must results be
    at_once: so many processes, which divide the cores among them
    variables: of the processes' environment
    watcher: is told what happens
    """
    pool = _Pool(work, jobs, at_once, variables or {}, watcher or Watcher())
    try:
        return pool.outcomes()
    finally:
        pool.end()


class _Pool(Generic[J, R]):
    """The processes, and the jobs that wait for them."""

    def __init__(
        self,
        work: Callable[[J, Tell], R],
        jobs: Sequence[J],
        at_once: int,
        variables: Mapping[str, str],
        watcher: Watcher,
    ) -> None:
        self.work, self.jobs, self.variables, self.watcher = work, jobs, variables, watcher
        self.at_once = min(at_once, len(jobs))
        self.waiting = deque(range(len(jobs)))
        self.workers: list[_Worker] = []
        """All that were ever started."""
        self.found: dict[int, Outcome[J, R]] = {}

    def outcomes(self) -> list[Outcome[J, R]]:
        """Do it all."""
        for _ in range(self.at_once):
            self._start()  # all, before the first is given anything: a large job is not received at once
        for worker in list(self.workers):
            self._give(worker)
        while len(self.found) < len(self.jobs):
            busy = [worker for worker in self.workers if worker.job is not None]
            wait([place for worker in busy for place in (worker.link, worker.process.sentinel)])
            for worker in busy:
                self._hear(worker)
        return [self.found[n] for n in range(len(self.jobs))]

    def _start(self) -> _Worker:
        worker = _Worker(self.work, max(1, cores() // self.at_once), self.variables)
        self.workers.append(worker)
        return worker

    def _give(self, worker: _Worker) -> None:
        """The next job, or where there is none the way out."""
        worker.job = None
        if not self.waiting:
            worker.link.close()
            return
        worker.job, worker.since = self.waiting.popleft(), time.monotonic()
        with suppress(OSError):  # it has died, as will be heard
            worker.link.send(self.jobs[worker.job])

    def _hear(self, worker: _Worker) -> None:
        """What a process has to say, if anything."""
        n, lives = worker.job, worker.process.is_alive()
        assert n is not None
        try:
            if not worker.link.poll():
                if lives:
                    return
                raise EOFError
            kind, *what = worker.link.recv()
        except (EOFError, OSError):
            kind, what = "failed", [DIED, time.monotonic() - worker.since]
        if kind == "done":
            self._found(n, Outcome(self.jobs[n], what[0], None, what[1]))
            self._give(worker)
        elif kind == "failed":
            self._found(n, Outcome(self.jobs[n], None, what[0], what[1]))
            self._replace(worker)
        else:
            getattr(self.watcher, kind)(n, *what)

    def _found(self, n: int, outcome: Outcome[J, R]) -> None:
        self.found[n] = outcome
        self.watcher.ended(n, outcome)

    def _replace(self, worker: _Worker) -> None:
        """What a failed job has done to its process, and to its memory on a GPU, goes with it."""
        worker.job = None
        worker.link.close()
        if self.waiting:
            self._give(self._start())

    def end(self) -> None:
        """End every process: those that have nothing more to do by themselves, the others as they can be made to."""
        for worker in self.workers:
            worker.link.close()
        with _interrupts_later():
            if len(self.found) == len(self.jobs):
                _join(self.workers, ENDINGS[0][1])
            for how, seconds in ENDINGS:
                for worker in self.workers:
                    if worker.process.is_alive() and worker.process.pid:
                        os.kill(worker.process.pid, how)
                _join(self.workers, seconds)


class _Worker:
    """A process, seen from outside."""

    def __init__(self, work: Callable[[Any, Tell], Any], threads: int, variables: Mapping[str, str]) -> None:
        self.job: int | None = None
        self.since = 0.0
        self.link, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(work, theirs, threads), daemon=True)
        with environment(variables), _interrupts_later():  # later there, too, until it can bear them
            self.process.start()
        theirs.close()


def _join(workers: Sequence[_Worker], seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    for worker in workers:
        worker.process.join(None if end is None else max(0.0, end - time.monotonic()))


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C takes effect only afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- inside a process -------------------------------------------------------------------------------------------------


class Lines(io.StringIO):
    """A file that passes on every line once it is whole."""

    def __init__(self, receive: Tell) -> None:
        super().__init__()
        self.receive, self.rest = receive, ""

    def write(self, text: str, /) -> int:
        """Lines with nothing in them are left out."""
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            if line.strip():
                self.receive(line)
        return len(text)


def _serve(work: Callable[[Any, Tell], Any], link: Connection, threads: int) -> None:
    """Do jobs until there are no more, one fails, or somebody interrupts."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(min(threads, torch.get_num_threads()))
    one_at_a_time = threading.Lock()

    def send(kind: str, *what: Any) -> None:
        with suppress(OSError), one_at_a_time:  # nobody listens any more
            link.send((kind, *what))

    signal.signal(signal.SIGINT, _interrupt_once)
    try:
        with (
            redirect_stdout(Lines(lambda line: send("said", line))),
            redirect_stderr(Lines(lambda line: send("warned", line))),
        ):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            while _do(work, link.recv(), send):
                pass
    except (KeyboardInterrupt, EOFError, OSError):
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _do(work: Callable[[Any, Tell], Any], job: Any, send: Callable[..., None]) -> bool:
    """One job → whether it went well."""
    send("begun")
    start = time.monotonic()
    try:
        result = work(job, lambda line: send("said", line))
        send("done", result, time.monotonic() - start)
    except Exception as error:
        send("failed", _message(error), time.monotonic() - start)
        return False
    del job, result
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # for the others
    return True


def _message(error: Exception) -> str:
    """What is meant for a user as it is; anything else with the kind of error that it is."""
    line = in_one_line(error)
    if isinstance(error, DataError | ModelError | TrainingError) or line == type(error).__name__:
        return line
    return f"{type(error).__name__}: {line}"


def _interrupt_once(*_: Any) -> None:
    """Ctrl-C comes from the terminal and from the parent; what it has begun is not to be interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """A parent that was killed could not say so."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


# --- training ---------------------------------------------------------------------------------------------------------


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

    several_on_gpu = min(at_once, len(runs)) > 1 and any(_on_gpu(run.config) for run in runs)
    board = (_Table if console.is_terminal else _Log)(runs, tell)
    with (
        shared_gpu(tell) if several_on_gpu else nullcontext({}) as variables,
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
