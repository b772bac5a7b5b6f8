"""Any work in several processes of one machine: each does one job after another, and what fails costs only its job."""

from __future__ import annotations

import gc
import io
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from torch_ctree.data.errors import DataError, in_one_line
from torch_ctree.models import ModelError
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.sharing import environment

J = TypeVar("J")
R = TypeVar("R")
Tell = Callable[[str], None]
SPAWN = get_context("spawn")
DIED = "the process died"
ENDINGS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None))
"""How a process is ended, and the seconds it is given to obey: first so that a run stops in order."""


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


class Several(Watcher):
    """Tells others, one after the other."""

    def __init__(self, *others: Watcher) -> None:
        self.others = others

    def begun(self, n: int) -> None:
        """A process has begun with it."""
        self._tell("begun", n)

    def said(self, n: int, line: str) -> None:
        """It has told something, or printed it."""
        self._tell("said", n, line)

    def warned(self, n: int, line: str) -> None:
        """There is a line on its error output."""
        self._tell("warned", n, line)

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        """It is done, or has failed."""
        self._tell("ended", n, outcome)

    def _tell(self, what: str, *about: Any) -> None:
        for other in self.others:
            getattr(other, what)(*about)


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
        with interrupts_later():
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
        with environment(variables), interrupts_later():  # later there, too, until it can bear them
            self.process.start()
        theirs.close()


def _join(workers: Sequence[_Worker], seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    for worker in workers:
        worker.process.join(None if end is None else max(0.0, end - time.monotonic()))


@contextmanager
def interrupts_later() -> Iterator[None]:
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
            while do_job(work, link.recv(), send):
                pass
    except (KeyboardInterrupt, EOFError, OSError):
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def do_job(work: Callable[[Any, Tell], Any], job: Any, send: Callable[..., None]) -> bool:
    """One job → whether it went well."""
    send("begun")
    start = time.monotonic()
    try:
        result = work(job, lambda line: send("said", line))
        send("done", result, time.monotonic() - start)
    except Exception as error:
        send("failed", error_line(error), time.monotonic() - start)
        return False
    del job, result
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # for the others
    return True


def error_line(error: Exception) -> str:
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
