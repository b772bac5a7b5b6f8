"""Many runs on a Ray cluster: what ``training.pool`` does on one machine.

Ray speaks to the cluster from a process of its own. There it may print, hang, or take the process down when the cluster
goes, and none of that reaches the caller.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import torch

from torch_ctree import __version__
from torch_ctree.data.errors import count, in_one_line, shown
from torch_ctree.training import TrainingError
from torch_ctree.training.pool import DIED, SPAWN, Lines, Outcome, Tell, Watcher, do_job, error_line, interrupts_later
from torch_ctree.training.together import ON_A_GPU

J = TypeVar("J")
R = TypeVar("R")
GPUS_EACH = 1 / ON_A_GPU
"""The part of a GPU that a run gets, unless told otherwise."""
ADDRESS = re.compile(r"(?:ray://)?([^:/\s]+):(\d{1,5})")
PATIENCE = 60.0
"""Seconds for a cluster to answer, at each try."""
CONNECTIONS = 3
"""How often to try, where a head answers and then fails."""
KNOCK = 10.0
"""Seconds for a machine to let us in."""
PERIOD = 0.3
"""Seconds between two looks at the cluster."""
TRIES = {DIED: 3, "the node died": 10}
"""How often a job is tried. A process that died may have died of its job; a node seldom does."""
ROUNDS = 30
"""How often to ask which nodes there are, while one of them turns out to be dead."""
STARVED = 600.0
"""Seconds to wait for a node where none is left that could do a job."""
ENDING = 10.0
"""Seconds for runs to stop in order, and for the connection to be closed."""
HEAD = "node:__internal_head__"
"""What Ray calls the node without which there is no cluster."""


def run_on_ray(
    work: Callable[[J, Tell], R],
    jobs: Sequence[J],
    address: str,
    *,
    gpus_each: float | None = None,
    watcher: Watcher | None = None,
) -> list[Outcome[J, R]]:
    """Do jobs on a Ray cluster → what became of each, in their order.

    Each job is a task that asks for one CPU and, where the cluster has GPUs, for a part of one. A job whose node dies
    is done again on another one, up to ten times in all; one whose process dies, up to three times, as the job may be
    the reason. The watcher then hears again that it has begun, and nothing more from the try before. A job that raises
    an error has failed, and the others go on. Ctrl-C ends the tasks and leaves the cluster as it is.

    Every node needs the same version of this package; nothing is installed there. Jobs go to the nodes and results
    come back through Ray, and nothing else is shared: what a job writes stays on its node. So a run that moves to
    another node begins anew, unless its folder is on storage that the nodes share; then it resumes. Files that a job
    reads must be on every node as well. On a node's GPU, runs take turns, unless CUDA's multi-process service was
    started there before Ray was.

    work: does a job, and may tell lines about it on the way; a function that can be imported by its name on every node
    jobs: anything that can be pickled; so must results be
    address: "auto" for the cluster of this machine, host:port of its head, or ray://host:port from outside of it
    gpus_each: the part of a GPU for each, or a whole number of them; by default a tenth; 0 for jobs that use none
    watcher: is told what happens
    """
    gpus_each = GPUS_EACH if gpus_each is None else gpus_each
    if not (0 <= gpus_each <= 1 or (gpus_each > 1 and gpus_each == int(gpus_each))):
        raise TrainingError(f"gpus_each: got {gpus_each}; expected a number from 0 to 1, or a whole number")
    if find_spec("ray") is None:
        raise TrainingError("ray is not installed; pip install 'torch-ctree[cluster]'")
    if not jobs:
        return []
    _knock(address)
    driver = _Driver(work, jobs, address, gpus_each, watcher or Watcher())
    try:
        return driver.outcomes()
    finally:
        driver.end()


def _knock(address: str) -> None:
    """See at once whether anybody is there: Ray would try for minutes."""
    if address == "auto":
        return
    if not (parts := ADDRESS.fullmatch(address)):
        raise TrainingError(
            f"the address of a Ray cluster: got {shown(address)}; expected auto, host:port or ray://host:port"
        )
    try:
        socket.create_connection((parts[1], int(parts[2])), KNOCK).close()
    except (OSError, OverflowError) as error:  # a port beyond 65535
        raise TrainingError(_nobody(address, getattr(error, "strerror", None) or str(error))) from None


def _nobody(address: str, why: str) -> str:
    return (
        f"no Ray cluster answers at {address} ({in_one_line(why, 200)}); "
        "see whether ray status shows it, and whether the address is that of its head"
    )


class _Driver(Generic[J, R]):
    """The process that speaks to the cluster, seen from outside."""

    def __init__(
        self, work: Callable[[J, Tell], R], jobs: Sequence[J], address: str, gpus_each: float, watcher: Watcher
    ) -> None:
        self.jobs, self.address, self.watcher = jobs, address, watcher
        self.found: dict[int, Outcome[J, R]] = {}
        self.since, self.connected = time.monotonic(), False
        packed = [pickle.dumps((work, job)) for job in jobs]
        self.link, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_drive, args=(theirs, packed, address, gpus_each, ENDING), daemon=True)
        with interrupts_later():  # and there never: it is told by the end of the link
            self.process.start()
        theirs.close()

    def outcomes(self) -> list[Outcome[J, R]]:
        """Hear it all."""
        while len(self.found) < len(self.jobs):
            if not self.connected and not self.link.poll(PATIENCE):
                raise TrainingError(_nobody(self.address, f"nothing for {PATIENCE:.0f} s"))
            try:
                kind, *what = self.link.recv()
            except (EOFError, OSError):
                kind, what = "lost", ["its head may be down"]
            self._hear(kind, *what)
        return [self.found[n] for n in range(len(self.jobs))]

    def _hear(self, kind: str, *what: Any) -> None:
        if kind == "refused":
            raise TrainingError(what[0])
        if kind == "lost":
            for n in sorted(set(range(len(self.jobs))) - set(self.found)):
                error = f"the connection to the Ray cluster at {self.address} was lost ({what[0]})"
                self._found(n, None, error, time.monotonic() - self.since)
        elif kind == "done":
            self._done(*what)
        elif kind == "failed":
            self._found(what[0], None, what[1], what[2])
        elif kind in ("connected", "again"):
            self.connected = kind == "connected"
        else:
            getattr(self.watcher, kind)(*what)

    def _done(self, n: int, packed: bytes, seconds: float) -> None:
        result, error = None, None
        try:
            result = pickle.loads(packed)
        except Exception as cause:
            error = f"its result cannot be read here: {error_line(cause)}"
        self._found(n, result, error, seconds)

    def _found(self, n: int, result: R | None, error: str | None, seconds: float) -> None:
        self.found[n] = Outcome(self.jobs[n], result, error, seconds)
        self.watcher.ended(n, self.found[n])

    def end(self) -> None:
        """End the process, and with it all that is still under way; Ctrl-C has to wait for it."""
        self.link.close()
        with _without_interrupts():
            if self.connected:
                self.process.join(3 * ENDING)
            self.process.kill()  # the cluster ends the tasks of a process that is gone
            self.process.join()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C has no effect meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- inside the process that speaks to the cluster --------------------------------------------------------------------


class _RefusedError(Exception):
    """Why nothing can be done, in one line for the user."""


def _drive(link: Connection, packed: list[bytes], address: str, gpus_each: float, ending: float) -> None:
    """Do all jobs, and send what happens.

    ending: seconds for runs to stop in order
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _fall_silent()
    cluster = None
    try:
        _connect(link, address)
        link.send(("connected",))
        cluster = _Cluster(link, packed, gpus_each)
        cluster.do_all()
    except _RefusedError as refused:
        _send(link, "refused", str(refused))
    except Exception as error:
        _send(link, "lost", error_line(error))
    finally:
        if cluster is not None:
            cluster.end(ending)
        _disconnect()
        link.close()


def _send(link: Connection, *what: Any) -> None:
    with suppress(OSError):  # nobody listens any more
        link.send(what)


def _fall_silent() -> None:
    """Ray prints, from C++ and from threads, whatever it is told about logging."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for place in (1, 2):
        os.dup2(nowhere, place)
    os.close(nowhere)


def _connect(link: Connection, address: str) -> None:
    import ray  # noqa: PLC0415  (it may not be installed)

    for left in reversed(range(CONNECTIONS)):
        try:
            ray.init(address=address, log_to_driver=False)
            return
        except Exception as error:
            # On a busy machine a head may fail to start the server that it gives each ray:// client, and takes half a
            # minute to say so.
            if not left or not isinstance(error, ConnectionAbortedError):
                raise _RefusedError(_nobody(address, error_line(error))) from error
            _disconnect()
            _send(link, "again")


def _disconnect() -> None:
    import ray  # noqa: PLC0415

    with suppress(Exception):
        ray.shutdown()


class _Cluster:
    """The tasks."""

    def __init__(self, link: Connection, packed: list[bytes], gpus_each: float) -> None:
        import ray  # noqa: PLC0415

        self.ray: Any = ray  # its types know nothing of options
        self.link, self.packed = link, packed
        self.unfinished: dict[Any, int] = {}
        """The task of each job that is not done."""
        self.tries = [0] * len(packed)
        self.lost = [Counter[str]() for _ in packed]
        self.since = [time.monotonic()] * len(packed)
        self.starved: float | None = None
        check, attempt, mailbox = _shipped()
        self.gpus = self._decide(gpus_each, self.ray.remote(num_cpus=0, max_retries=0)(check))
        # Without its head there is no cluster, so the mailbox can be nowhere safer.
        self.mailbox = self.ray.remote(num_cpus=0, resources={HEAD: 0.001}, max_restarts=-1)(mailbox).remote()
        # Ray would try again by itself, but could not tell the lines of one try from those of another. A process that
        # has used a GPU ends, since it would keep memory there.
        calls = {"max_calls": 1} if self.gpus else {}
        self.task = self.ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=0, **calls)(attempt)

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _able(self, gpus: float) -> list[dict[str, Any]]:
        """The nodes that could do a job."""
        return [
            node
            for node in self._nodes()
            if node["Resources"].get("CPU", 0) >= 1 and node["Resources"].get("GPU", 0) >= gpus
        ]

    def _decide(self, gpus_each: float, check: Any) -> float:
        """How much of a GPU each job asks for → 0 where there is none.

        A node that has just died is listed for some seconds more, so that what is there must be asked.
        """
        gpus = 0.0
        for _ in range(ROUNDS):
            gpus = gpus_each if any(node["Resources"].get("GPU") for node in self._nodes()) else 0
            if not (nodes := self._able(gpus)):
                raise _RefusedError(f"no node of the Ray cluster has {_needs(gpus)}, which each run needs")
            if self._all_live([node["NodeID"] for node in nodes], check):
                break
            time.sleep(1)
        return gpus

    def _all_live(self, nodes: list[str], check: Any) -> bool:
        """Refuse nodes without the package: they would fail one job after the other, and so get them all."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        answers = [check.options(scheduling_strategy=place).remote(__version__) for place in places]
        self.ray.wait(answers, num_returns=len(answers), timeout=PATIENCE)
        all_live = True
        for answer in answers:
            try:
                if problem := self.ray.get(answer, timeout=KNOCK):
                    raise _RefusedError(problem)
            except self.ray.exceptions.GetTimeoutError:  # it is slow; a job there says what is wrong
                continue
            except self.ray.exceptions.RayError:
                all_live = False
        return all_live

    def do_all(self) -> None:
        """Until all are done, or nobody wants to hear of them any more."""
        for n in range(len(self.packed)):
            self._submit(n)
        while self.unfinished and not self.link.poll():  # it never gets anything but its end
            ready, _ = self.ray.wait(list(self.unfinished), num_returns=1, timeout=PERIOD)
            self._hear()  # what a job has told comes before its end
            for task in ready:
                self._finish(task)
            self._look_for_nodes()

    def _submit(self, n: int) -> None:
        self.tries[n] += 1
        self.since[n] = time.monotonic()
        task = self.task.remote(self.packed[n], (n, self.tries[n]), self.mailbox, __version__)
        self.unfinished[task] = n

    def _hear(self) -> None:
        """Pass on what jobs have told, unless they tell it from a node that is believed dead."""
        letters = []
        with suppress(self.ray.exceptions.RayError):  # lines are lost then, but no results
            letters = self.ray.get(self.mailbox.take.remote(), timeout=PATIENCE)
        for (n, attempt), kind, *what in letters:
            if attempt == self.tries[n]:
                if kind == "begun":
                    self.since[n] = time.monotonic()
                _send(self.link, kind, n, *what)

    def _finish(self, task: Any) -> None:
        errors = self.ray.exceptions
        n = self.unfinished.pop(task)
        try:
            kind, *what = self.ray.get(task)
            _send(self.link, kind, n, *what)
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            self._fail(n, error_line(cause if isinstance(cause, Exception) else error))
        except (errors.WorkerCrashedError, errors.OutOfMemoryError):
            self._again(n, DIED)
        except (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError, errors.RaySystemError):
            self._again(n, "the node died")
        except errors.RayError as error:
            self._fail(n, error_line(error))

    def _again(self, n: int, why: str) -> None:
        self.lost[n][why] += 1
        if self.lost[n][why] == TRIES[why]:
            self._fail(n, f"{why}, {count(TRIES[why], 'time')}; given up")
            return
        _send(self.link, "warned", n, f"{why}; begun again")
        self._submit(n)

    def _fail(self, n: int, error: str) -> None:
        _send(self.link, "failed", n, error, time.monotonic() - self.since[n])

    def _look_for_nodes(self) -> None:
        """Give up where no node has been left for a long time; Ray would wait forever."""
        now = time.monotonic()
        if self._able(self.gpus):
            self.starved = None
            return
        self.starved = self.starved or now
        if now - self.starved > STARVED:
            for n in self.unfinished.values():
                self._fail(n, f"no node that is left has {_needs(self.gpus)}")
            self.unfinished.clear()

    def end(self, seconds: float) -> None:
        """Cancel what is under way: first so that a run stops in order, for which it is given some seconds."""
        with suppress(Exception):  # the cluster is gone
            rest = list(self.unfinished)
            for by_force in (False, True):
                for task in rest:
                    self.ray.cancel(task, force=by_force)
                if rest:
                    _, rest = self.ray.wait(rest, num_returns=len(rest), timeout=seconds)


def _needs(gpus: float) -> str:
    if not gpus:
        return "one CPU"
    return f"one CPU and {gpus:g} {'of a GPU' if gpus <= 1 else 'GPUs'}"


# --- on a node --------------------------------------------------------------------------------------------------------


def _shipped() -> tuple[Callable[..., Any], Callable[..., Any], type]:
    """What is sent to the nodes: a check, one try of a job, and the mailbox.

    Functions inside a function are sent as they are rather than by name, so that a node that does not have the package
    can say so. They may use nothing of this module.
    """

    def check(version: str) -> str | None:
        """What is wrong with this node, if anything."""
        import ray  # noqa: PLC0415

        try:
            import torch_ctree  # noqa: PLC0415
        except Exception as error:
            problem = " ".join(f"cannot import torch_ctree ({type(error).__name__}: {error})".split())
        else:
            if torch_ctree.__version__ == version:
                return None
            problem = f"has torch-ctree {torch_ctree.__version__}"
        node = ray.util.get_node_ip_address()
        return f"node {node} of the Ray cluster {problem}; install torch-ctree {version}, as here, on every node"

    def attempt(packed: bytes, which: tuple[int, int], mailbox: Any, version: str) -> tuple[Any, ...]:
        """One try → how it ended."""
        from contextlib import suppress  # noqa: PLC0415

        import ray  # noqa: PLC0415

        if problem := check(version):
            return "failed", problem, 0.0
        from torch_ctree.experiments.cluster import serve  # noqa: PLC0415

        posted = []

        def post(*what: Any) -> None:
            posted[:] = [mailbox.put.remote((which, *what))]  # they arrive in their order

        ending = serve(packed, post)
        with suppress(Exception):  # the mailbox is gone: lines are lost, but no results
            ray.get(posted, timeout=30)
        return ending

    class Mailbox:
        """Keeps what jobs tell until it is asked for."""

        def __init__(self) -> None:
            self.letters: list[Any] = []

        def put(self, letter: Any) -> None:
            """One more."""
            self.letters.append(letter)

        def take(self) -> list[Any]:
            """All since last time."""
            letters, self.letters = self.letters, []
            return letters

    return check, attempt, Mailbox


def serve(packed: bytes, post: Callable[..., None]) -> tuple[Any, ...]:
    """Do a job in a process of the cluster → ``"done"``, the packed result, seconds; or ``"failed"``, why, seconds.

    post: sends what happens on the way
    """
    torch.set_num_threads(1)  # it was given one CPU
    one_at_a_time = threading.Lock()
    ending: list[Any] = []

    def send(kind: str, *what: Any) -> None:
        if kind == "done":
            ending[:] = kind, pickle.dumps(what[0]), what[1]
        elif kind == "failed":
            ending[:] = kind, *what
        else:
            with one_at_a_time:
                post(kind, *what)

    with (
        redirect_stdout(Lines(lambda line: send("said", line))),
        redirect_stderr(Lines(lambda line: send("warned", line))),
    ):
        try:
            work, job = pickle.loads(packed)
        except Exception as error:
            return "failed", f"the job cannot be read on its node: {error_line(error)}", 0.0
        do_job(work, job, send)
    return tuple(ending)
