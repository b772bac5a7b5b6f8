"""Time pieces of work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

Work = Callable[[], object]

WARM_UP, REPEATS, BUDGET = 3, 30, 5.0
"""Calls before time counts; calls that count, at most, and 5 at least; seconds they may take."""


def quantiles(times: list[float]) -> dict[str, Any]:
    """Seconds → their median and deciles in milliseconds."""
    cuts = statistics.quantiles(times, n=10)
    return {
        "median_ms": 1e3 * statistics.median(times),
        "p10_ms": 1e3 * cuts[0],
        "p90_ms": 1e3 * cuts[-1],
        "repeats": len(times),
    }


def timed(work: Work, device: torch.device) -> dict[str, Any]:
    """A call's time, Python's part included."""
    for _ in range(WARM_UP):
        _seconds(work, device)
    first = _seconds(work, device)
    repeats = max(5, min(REPEATS, int(BUDGET / first)))
    return quantiles([_seconds(work, device) for _ in range(repeats)])


def timed_alone(work: Work, device: torch.device, calls: int = 10) -> dict[str, Any]:
    """On a GPU the time it computes, without Python's: as a CUDA graph of several calls. On a CPU as ``timed``.

    It counts warm data: inputs that fit into the GPU's cache are there.
    """
    if device.type != "cuda":
        return timed(work, device)
    replay = captured(lambda: [work() for _ in range(calls)])
    for _ in range(WARM_UP):
        replay()
    return quantiles([_between_events(replay) / calls for _ in range(REPEATS)])


def captured(work: Work) -> Callable[[], None]:
    """Work as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _seconds(work: Work, device: torch.device) -> float:
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - start


def _between_events(work: Work) -> float:
    """Seconds between two marks in the GPU's queue."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
