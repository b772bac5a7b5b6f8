"""Real clusters of Ray on this machine: a node is processes of its own, and dies as one does that loses power."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.processes import from_one
from tests.training.jobs import Recorder, is_gone, until, wait_for
from torch_ctree import __version__
from torch_ctree.experiments import cluster
from torch_ctree.experiments.cluster import run_on_ray
from torch_ctree.training import TrainingError

ROOT = Path(__file__).parents[2]
RAY = Path(sys.executable).with_name("ray")
MODEST = (
    "--block",
    "--object-store-memory=80000000",
    "--disable-usage-stats",
    "--min-worker-port=0",  # any that is free
    "--max-worker-port=0",
)


class Node:
    """The processes of a node."""

    def __init__(self, folder: Path, *options: str, path: str = "") -> None:
        log = folder / f"{time.monotonic_ns()}.log"
        environment = {**os.environ, "PYTHONPATH": f"{path}:{ROOT}", "OMP_NUM_THREADS": "1"}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [RAY, "start", *MODEST, *options], stdout=output, stderr=output, env=environment, start_new_session=True
            )
        try:
            until(lambda: "Ray runtime started" in log.read_text() or self.process.poll() is not None)
            assert self.process.poll() is None, log.read_text()
        except BaseException:
            self.kill()
            raise

    def pids(self) -> list[int]:
        """Its processes, those that were started first before those that they started."""
        parents = {}
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def kill(self) -> None:
        """All of them at once."""
        pids = self.pids()
        for pid in pids:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        until(lambda: all(map(is_gone, pids)))

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


class Cluster:
    """A head with two CPUs, which others can join."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as one, socket.socket() as other:
            one.bind(("", 0))
            other.bind(("", 0))
            port, self.client_port = one.getsockname()[1], other.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.nodes = [
            Node(
                folder,
                "--head",
                f"--port={port}",
                f"--ray-client-server-port={self.client_port}",
                f"--temp-dir={folder}",
                "--include-dashboard=false",
                '--system-config={"health_check_period_ms": 300}',  # a node is dead after five that it does not answer
                "--num-cpus=2",
                "--num-gpus=0",
            )
        ]

    def join(self, *options: str, path: str = "") -> Node:
        """One more node, with an address of its own."""
        here = f"--node-ip-address=127.0.0.{len(self.nodes) + 1}"
        self.nodes.append(Node(self.folder, f"--address={self.address}", here, *options, path=path))
        return self.nodes[-1]

    def end(self) -> None:
        """What was started here, and nothing else."""
        for node in reversed(self.nodes):
            if node.lives:
                node.kill()


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # for sockets, whose paths must be short
    started = Cluster(folder)
    try:
        yield started
    finally:
        started.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def with_gpu(ray_cluster):
    """A second node; Ray believes what it is told about its GPU."""
    node = ray_cluster.join("--num-cpus=2", "--num-gpus=1")
    yield node
    if node.lives:
        node.kill()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The process that speaks to the cluster begins in no time; but where Ctrl-C ends a program, as anywhere."""
    monkeypatch.setattr(cluster, "SPAWN", from_one())


def is_open(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


# --- what the nodes are given to do -----------------------------------------------------------------------------------


def work(job: Any, tell: Callable[[str], None]) -> Any:
    """What a job asks for."""
    if job == "raise":
        raise TrainingError("width: got 7;\nexpected 8")
    if job == "missing":
        raise KeyError("x")
    if isinstance(job, Path):
        with job.open("a") as tries:
            tries.write("begun\n")
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "cannot be sent":
        return lambda: None
    tell(f"{job} begins")
    print("half a line", end="")
    print(", and the rest")
    print("careful", file=sys.stderr)
    return os.getpid()


def in_a_while(place: Path, tell: Callable[[str], None]) -> tuple[str, int]:
    """Wait for permission to finish."""
    tell(f"in {os.getppid()}")  # every process of Ray is a child of its node's
    until((place.parent / "go").exists)
    with place.open("a") as notes:
        notes.write("finished\n")
    return place.name, os.getppid()


def given(job: int, tell: Callable[[str], None]) -> tuple[dict[str, float], str | None, int]:
    import ray  # noqa: PLC0415

    resources = ray.get_runtime_context().get_assigned_resources()
    return resources, os.environ.get("CUDA_VISIBLE_DEVICES"), os.getppid()


def endless(place: Path, tell: Callable[[str], None]) -> None:
    """Until somebody ends it; Ray does not interrupt a long sleep."""
    if place.name == "deaf":
        wait_for(place, tell)
    place.write_text(str(os.getpid()))
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        place.with_name("interrupted").touch()
        raise


def driver(folder: Path) -> None:
    """Runs in a process of its own."""
    cluster.ENDING = 2.0
    run_on_ray(endless, [folder / "deaf", folder / "attentive", folder / "late"], "auto")


# --- with a cluster ---------------------------------------------------------------------------------------------------


def test_every_run_is_finished_once_though_a_node_dies(ray_cluster, with_gpu, tmp_path):
    class Killer(Recorder):
        """Kills a node as soon as both have something to do."""

        def said(self, n: int, line: str) -> None:
            super().said(n, line)
            places[n] = int(line.removeprefix("in "))
            if with_gpu.lives and len(set(places.values())) == 2:
                moved.extend(n for n, raylet in places.items() if raylet in with_gpu.pids())
                with_gpu.kill()
                (tmp_path / "go").touch()

    places: dict[int, int] = {}
    moved: list[int] = []
    killer = Killer()
    jobs = [tmp_path / f"job {n}" for n in range(6)]
    outcomes = run_on_ray(in_a_while, jobs, ray_cluster.address, gpus_each=0, watcher=killer)
    assert [(outcome.job, outcome.error) for outcome in outcomes] == [(job, None) for job in jobs]
    results: list[Any] = [outcome.result for outcome in outcomes]
    assert [name for name, _ in results] == [job.name for job in jobs]
    assert {raylet for _, raylet in results} <= set(ray_cluster.nodes[0].pids())
    assert [job.read_text() for job in jobs] == ["finished\n"] * 6
    assert Counter(event for _, event in killer.events)["ended: None"] == 6
    assert moved
    for n in range(6):
        events = killer.of(n)
        assert events.count("ended: None") == 1
        assert events[-1] == "ended: None"
        assert events.count("begun") == (2 if n in moved else 1)
        assert "warned: the node died; begun again" in events or n not in moved  # another may have been on its way


def test_parts_of_a_gpu(ray_cluster, with_gpu):
    for outcome in run_on_ray(given, [0], ray_cluster.address, gpus_each=0.25):
        assert outcome.error is None
        assert outcome.result is not None
        resources, visible, raylet = outcome.result
        assert resources == {"CPU": 1, "GPU": 0.25}
        assert visible == "0"
        assert raylet in with_gpu.pids()
    with pytest.raises(
        TrainingError, match=r"^no node of the Ray cluster has one CPU and 2 GPUs, which each run needs$"
    ):
        run_on_ray(given, [0], ray_cluster.address, gpus_each=2)


def test_a_job_that_fails_costs_only_itself(ray_cluster, tmp_path):
    """From outside of the cluster, too."""
    until(lambda: is_open(ray_cluster.client_port))  # a little later than the rest
    address = f"ray://127.0.0.1:{ray_cluster.client_port}"
    jobs = [tmp_path / "dies", 1, "raise", "missing", "cannot be sent", 2]
    recorder = Recorder()
    outcomes = run_on_ray(work, jobs, address, watcher=recorder)
    assert [outcome.job for outcome in outcomes] == jobs
    errors = [outcome.error for outcome in outcomes]
    assert errors[:4] == ["the process died, 3 times; given up", None, "width: got 7; expected 8", "KeyError: 'x'"]
    assert errors[4] is not None
    assert "lambda" in errors[4]
    assert errors[5] is None
    assert jobs[0].read_text() == "begun\n" * 3
    assert recorder.of(0)[-1] == f"ended: {errors[0]}"
    assert recorder.of(0).count("warned: the process died; begun again") == 2
    told = ["begun", "said: 1 begins", "said: half a line, and the rest", "warned: careful", "ended: None"]
    assert recorder.of(1) == told
    assert sorted(n for n, event in recorder.events if event.startswith("ended")) == list(range(6))


def test_a_node_without_the_package(ray_cluster, tmp_path):
    package = tmp_path / "torch_ctree"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('no torch here')")
    node = ray_cluster.join("--num-cpus=1", "--num-gpus=0", path=str(tmp_path))
    try:
        with pytest.raises(TrainingError) as caught:
            run_on_ray(work, [1], ray_cluster.address)
    finally:
        node.kill()
    assert str(caught.value) == (
        f"node 127.0.0.{len(ray_cluster.nodes)} of the Ray cluster cannot import torch_ctree (ImportError: no torch "
        f"here); install torch-ctree {__version__}, as here, on every node"
    )


def test_ctrl_c_ends_the_tasks_and_not_the_cluster(ray_cluster, tmp_path):
    program = f"from tests.experiments import test_cluster as t; t.driver(t.Path({str(tmp_path)!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": ray_cluster.address},
    )
    begun = [tmp_path / name for name in ("deaf", "attentive")]
    until(lambda: all(place.exists() and place.read_text() for place in begun) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[0]
    assert process.returncode == -signal.SIGINT, said
    assert said.count("Traceback") == 1, said  # its own
    until(lambda: all(is_gone(int(place.read_text())) for place in begun))
    assert not (tmp_path / "late").exists()
    assert (tmp_path / "interrupted").exists()
    subprocess.run([RAY, "status", f"--address={ray_cluster.address}"], check=True, capture_output=True)


# --- without one ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1 (Connection refused); see whether ray status shows it"),
        ("ray://127.0.0.1:1", "no Ray cluster answers at ray://127.0.0.1:1 (Connection refused); see whether "),
        ("127.0.0.1:99999", "no Ray cluster answers at 127.0.0.1:99999 ("),
        ("nowhere.invalid:6379", "no Ray cluster answers at nowhere.invalid:6379 ("),
        ("local", "the address of a Ray cluster: got 'local'; expected auto, host:port or ray://host:port"),
    ],
)
def test_an_address_where_nobody_is(address, said):
    with pytest.raises(TrainingError) as caught:
        run_on_ray(work, [1], address)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_an_address_where_something_else_is(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(TrainingError, match=r"^no Ray cluster answers at .* \(nothing for 2 s\); see "):
            run_on_ray(work, [1], address)


def hesitant(link: Connection, *given: Any) -> None:
    """A cluster that answers at the second try, each of which takes its time."""
    time.sleep(2)
    link.send(("again",))
    time.sleep(2)
    link.send(("refused", "answered"))


def test_each_try_has_its_time(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 3.0)
    monkeypatch.setattr(cluster, "_drive", hesitant)
    with pytest.raises(TrainingError, match=r"^answered$"):
        run_on_ray(work, [1], "auto")


def test_ray_may_not_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TrainingError, match=r"^ray is not installed; pip install 'torch-ctree\[cluster\]'$"):
        run_on_ray(work, [1], "auto")


@pytest.mark.parametrize("gpus", [-1, 1.5, float("nan")])
def test_parts_that_are_none(gpus):
    with pytest.raises(TrainingError, match=rf"^gpus_each: got {gpus}; expected a number from 0 to 1, or a whole"):
        run_on_ray(work, [1], "auto", gpus_each=gpus)


def test_nothing_to_do():
    assert run_on_ray(work, [], "auto") == []
