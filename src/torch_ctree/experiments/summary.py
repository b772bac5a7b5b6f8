"""Results of many runs in few numbers, and these in few characters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from torch_ctree.evaluation.cells import Cell
from torch_ctree.experiments.results import Result, done
from torch_ctree.experiments.tables import Column, Published, Table

BLOCKS = "▁▂▃▄▅▆▇█"
BINS = 10
NOTHING = "–"


@dataclass(frozen=True)
class Sample:
    """The numbers of some runs."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of one or more."""
        return mean(self.values)

    @property
    def deviation(self) -> float | None:
        """Of a sample; one number has none."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def histogram(self) -> tuple[int, ...]:
        """How many are in each tenth from 0 to 1; one itself is in the last."""
        counts = [0] * BINS
        for value in self.values:
            counts[min(BINS - 1, math.floor(value * BINS + 1e-9))] += 1  # 0.3 is 0.29999…
        return tuple(counts)


def sample(metrics: Iterable[Mapping[str, Any]], name: str) -> Sample:
    """A number of each run that has it."""
    return Sample(tuple(found[name] for found in metrics if found[name] is not None))


def cell_means(results: Iterable[Result]) -> dict[Cell, float]:
    """SCAN: the mean accuracy of runs by what a phrase does, and how often; cells that no command has are left out."""
    found: defaultdict[Cell, list[float]] = defaultdict(list)
    for result in results:
        for kind, below in result["metrics"].get("cells", {}).items():
            for times, share in below.items():
                found[kind, times].append(share["accuracy"])
    return {cell: mean(values) for cell, values in found.items()}


def bars(counts: Sequence[int]) -> str:
    """A histogram in characters: an empty bin is a line, and only one that has all runs is full.

    >>> bars([0, 5, 1, 1, 0, 0, 0, 0, 1, 2]), bars([9, 0, 1]), bars([0, 10])
    ('▁▅▂▂▁▁▁▁▂▃', '▇▁▂', '▁█')
    """
    total, most = sum(counts), len(BLOCKS) - 2
    return "".join(BLOCKS[1 + most * count // total if count else 0] for count in counts)


def number(value: float, digits: int) -> str:
    """With so many digits after the point, or as many more as were printed."""
    text = f"{value:.{digits}f}"
    return text if math.isclose(float(text), value) else f"{value:g}"


def spread(found: Sample, scale: int, digits: int) -> str:
    """Mean and standard deviation."""
    if not found.values:
        return NOTHING
    middle, deviation = f"{scale * found.mean:.{digits}f}", found.deviation
    return middle if deviation is None else f"{middle} ± {scale * deviation:.{digits}f}"


def published(printed: Published | None, table: Table) -> list[str]:
    """Mean and standard deviation as printed, and the histogram where there is one."""
    if printed is None:
        return [NOTHING]
    middle = number(printed.mean, table.digits)
    deviation = [] if printed.deviation is None else [number(printed.deviation, table.digits)]
    return [" ± ".join([middle, *deviation]), *([bars(printed.histogram[:BINS])] if printed.histogram else [])]


def alone(result: Result, column: Column, table: Table) -> str:
    """The number of one run."""
    return "failed" if "error" in result else f"{table.scale * column.value(result['metrics']):.{table.digits}f}"


def here(results: Sequence[Result], column: Column, table: Table) -> list[str]:
    """The same of our runs, and what became of those that are not in it."""
    if not results:
        return [NOTHING]
    found = Sample(tuple(column.value(result["metrics"]) for result in done(results)))
    failed = len(results) - len(found.values)
    drawn = [bars(found.histogram)] if found.values and table.histograms else []
    lines = [spread(found, table.scale, table.digits), *drawn]
    said = [] if len(found.values) == table.seeds else [f"{len(found.values)} of {table.seeds} runs"]
    said += [f"{failed} failed"] if failed else []
    return [*lines, ", ".join(said)] if said else lines
