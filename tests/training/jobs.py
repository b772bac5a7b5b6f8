"""What processes side by side are given to do, and who watches them; a module that takes no time to import."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_ctree.training import TrainingError, pool
from torch_ctree.training.pool import Outcome, Watcher


class Recorder(Watcher):
    def __init__(self) -> None:
        self.events: list[tuple[int, str]] = []

    def begun(self, n: int) -> None:
        self.events.append((n, "begun"))

    def said(self, n: int, line: str) -> None:
        self.events.append((n, f"said: {line}"))

    def warned(self, n: int, line: str) -> None:
        self.events.append((n, f"warned: {line}"))

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        self.events.append((n, f"ended: {outcome.error}"))

    def of(self, n: int) -> list[str]:
        return [event for which, event in self.events if which == n]


def work(job: Any, tell: Callable[[str], None]) -> Any:
    """What a job asks for."""
    if job == "raise":
        raise TrainingError("width: got 7;\nexpected 8")
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "cannot be sent":
        return lambda: None
    tell(f"{job} begins")
    print("half a line", end="")
    print(", and the rest")
    print("careful", file=sys.stderr)
    time.sleep(0.1)
    return os.getpid(), os.environ["SAID"], torch.get_num_threads()


def wait_for(place: Path, tell: Callable[[str], None]) -> None:
    """Until somebody ends it; the deaf one takes no hints."""
    if place.name == "deaf":
        for how in (signal.SIGINT, signal.SIGTERM):
            signal.signal(how, signal.SIG_IGN)
    place.write_text(str(os.getpid()))
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        place.with_name("interrupted").touch()
        raise


def parent(folder: Path) -> None:
    """Runs in a process of its own."""
    pool.ENDINGS = tuple((how, seconds and 2.0) for how, seconds in pool.ENDINGS)
    pool.run_together(wait_for, [folder / "deaf", folder / "attentive", folder / "late"], 2)


# --- for those who watch them -----------------------------------------------------------------------------------------


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
