"""A pool of processes."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from typing import Any

import pytest

from tests.training.jobs import Recorder, is_gone, until, work
from torch_ctree.training import TrainingError, pool
from torch_ctree.training.pool import DIED, Outcome, Several, run_together


def test_a_job_that_fails_costs_only_itself():
    jobs = ["die", 1, 2, 3, "raise", "cannot be sent"]
    recorder = Recorder()
    outcomes = run_together(work, jobs, 2, {"SAID": "so"}, recorder)
    assert active_children() == []
    assert "SAID" not in os.environ
    assert [outcome.job for outcome in outcomes] == jobs
    *first, unsent = [outcome.error for outcome in outcomes]
    assert first == [DIED, None, None, None, "width: got 7; expected 8"]
    assert unsent is not None
    assert "lambda" in unsent
    results: list[Any] = [outcome.result for outcome in outcomes if outcome.error is None]
    assert len({pid for pid, _, _ in results}) <= 2 < len(results)  # a process does several jobs
    assert os.getpid() not in {pid for pid, _, _ in results}
    assert {said for _, said, _ in results} == {"so"}
    assert {threads for _, _, threads in results} <= set(range(1, pool.cores() // 2 + 1)) | {1}
    assert all(outcome.seconds >= 0.1 for outcome in outcomes[1:4])
    told = ["begun", "said: 1 begins", "said: half a line, and the rest", "warned: careful", "ended: None"]
    assert [event for n, event in recorder.events if n == 1] == told


def test_several_are_told_the_same():
    one, other = Recorder(), Recorder()
    both = Several(one, other)
    both.begun(3)
    both.said(3, "so")
    both.warned(3, "careful")
    both.ended(3, Outcome("job", None, "no", 1.0))
    assert one.events == other.events == [(3, "begun"), (3, "said: so"), (3, "warned: careful"), (3, "ended: no")]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TrainingError("width: got 7;\nexpected 8"), "width: got 7; expected 8"),
        (KeyError("x"), "KeyError: 'x'"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_errors_in_one_line(error, said):
    assert pool.error_line(error) == said


def test_nothing_to_do():
    assert run_together(work, [], 3) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path, how):
    """Even those that would not hear of it, and even where their parent had no time to tell them."""
    program = f"from tests.training import jobs; jobs.parent(jobs.Path({str(tmp_path)!r}))"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    begun = [tmp_path / name for name in ("deaf", "attentive")]
    until(lambda: all(place.exists() and place.read_text() for place in begun) or process.poll() is not None)
    process.send_signal(how)
    said = process.communicate(timeout=300)[1]
    pids = [int(place.read_text()) for place in begun]
    assert process.returncode == -how
    assert not (tmp_path / "late").exists()
    if how == signal.SIGINT:
        assert all(map(is_gone, pids))  # at once
        assert (tmp_path / "interrupted").exists()
        assert said.count("Traceback") == 1  # the parent's
    until(lambda: all(map(is_gone, pids)))
