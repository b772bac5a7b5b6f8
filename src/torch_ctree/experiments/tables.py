"""The paper's Tables 1 and 2 as data: what was published, and which preset does the same here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Published:
    """A number as it was printed, in the unit of its table."""

    mean: float
    deviation: float | None = None
    histogram: tuple[int, ...] = ()
    """Runs by their accuracy, from 0, 10, … 90 and 100 percent on; the last only ends the drawing."""


@dataclass(frozen=True)
class Column:
    """One number of every run."""

    key: str
    title: str
    split: str
    """What the run is trained and tested on."""
    metric: tuple[str, ...] = ("exact_match",)
    """Where the number stands among the run's metrics."""

    def value(self, metrics: Mapping[str, Any]) -> float:
        """The number, from 0 to 1."""
        found: Any = metrics
        for name in self.metric:
            found = found[name]
        return found


@dataclass(frozen=True)
class Row:
    """A model."""

    name: str
    whose: Literal["paper", "quoted", "ours"]
    """Of the paper, quoted there from another one, or of this library alone."""
    published: Mapping[str, Published] = field(default_factory=dict)
    """By the key of the column."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """By split; rows that are quoted have none."""

    @property
    def slug(self) -> str:
        """For folders, and for the command line."""
        return slug(self.name)


@dataclass(frozen=True)
class Table:
    """A task with its rows, in the paper's order, ours below."""

    task: str
    title: str
    about: str
    """What the numbers are."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    seeds: int
    """How many runs each number is of."""
    scale: int
    """A share of one is printed as so many."""
    digits: int

    @property
    def splits(self) -> list[str]:
        """What rows are trained and tested on."""
        return list(dict.fromkeys(column.split for column in self.columns))

    @property
    def own(self) -> list[Row]:
        """The rows that can be trained here."""
        return [row for row in self.rows if row.presets]


def slug(name: str) -> str:
    """For folders, and for the command line.

    >>> slug("OM-CTree + LA")
    'om-ctree-la'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# --- Table 1 ----------------------------------------------------------------------------------------------------------

IN_THE_PAPER = ("simple", "turn-left", "jump", "length")
SCAN_COLUMNS = {
    "simple": "Simple",
    "turn-left": "+ Turn Left",
    "jump": "+ Jump",
    "length": "Length",
    "around-right": "Around right",
    "opposite-right": "Opposite right",
}
"""Split → its title; those that the paper does not have are of Loula, Baroni and Lake (2018)."""


def _scan(name: str, ending: str, *published: Published) -> Row:
    """A row of the paper with its own settings."""
    presets = {split: f"paper-scan-{split}{ending}" for split in SCAN_COLUMNS}
    return Row(name, "paper", dict(zip(IN_THE_PAPER, published, strict=True)), presets)


def _quoted(name: str, *published: tuple[float, float]) -> Row:
    return Row(name, "quoted", {key: Published(*two) for key, two in zip(IN_THE_PAPER, published, strict=True)})


SCAN = Table(
    task="scan",
    title="SCAN: Table 1",
    about="Exact match on the test set, in percent",
    columns=tuple(Column(split, title, split) for split, title in SCAN_COLUMNS.items()),
    rows=(
        _quoted("Bastings et al. (2018)", (100, 0.0), (59.1, 16.8), (12.5, 6.6), (18.1, 1.1)),
        _quoted("Bastings et al. (2018) - dep", (100, 0.0), (90.8, 3.6), (0.7, 0.4), (17.8, 1.7)),
        _quoted("Russin et al. (2019) (LA)", (100, 0.0), (99.9, 0.16), (78.4, 27.4), (15.2, 0.7)),
        _quoted("Li et al. (2019) (LA)", (99.9, 0.0), (99.7, 0.4), (98.8, 1.4), (20.3, 1.1)),
        _scan(
            "OM-Seq + LA",
            "-om-seq-la",
            Published(99.8, 0.0, (0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0)),  # nine, as printed
            Published(99.4, 1.4, (0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0)),
            Published(3.5, 8.1, (9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)),
            Published(20.9, 3.1, (0, 8, 1, 1, 0, 0, 0, 0, 0, 0, 0)),
        ),
        _scan(
            "BiRNN-CTree + LA",
            "-birnn-ctree-la",
            Published(99.9, 0.0, (0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0)),
            Published(85.5, 2.2, (0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0)),
            Published(56.5, 15.8, (0, 0, 1, 0, 3, 1, 3, 1, 1, 0, 0)),
            Published(19.8, 0.0, (0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        ),
        _scan(
            "OM-CTree",
            "-om-ctree",
            Published(99.9, 0.1, (0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0)),
            Published(93.0, 7.5, (0, 0, 0, 0, 0, 0, 0, 1, 1, 8, 0)),
            Published(0.1, 0.2, (10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
            Published(40.3, 22.5, (0, 1, 3, 2, 1, 1, 1, 0, 0, 1, 0)),
        ),
        _scan(
            "OM-CTree + LA",
            "",
            Published(100.0, 0.0, (0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0)),
            Published(100.0, 0.0, (0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0)),
            Published(80.1, 17.3, (0, 0, 0, 1, 0, 0, 1, 2, 3, 3, 0)),
            Published(44.7, 33.5, (0, 5, 1, 1, 0, 0, 0, 0, 1, 2, 0)),
        ),
        Row("torch-ctree", "ours", presets={split: f"scan-{split}" for split in SCAN_COLUMNS}),
    ),
    seeds=10,
    scale=100,
    digits=1,
)


# --- Table 2 ----------------------------------------------------------------------------------------------------------


def _questions(name: str, preset: str | None, test: Published, gen: Published) -> Row:
    """A row with the two numbers that the paper has; the others there are of McCoy, Frank and Linzen (2020)."""
    published = {"test": test, "gen-first-word": gen}
    return Row(name, "paper" if preset else "quoted", published, {"questions": preset} if preset else {})


QUESTIONS = Table(
    task="questions",
    title="English question formation: Table 2",
    about="Share of right answers: whole sentences of the test set, first words and whole sentences of the "
    "generalisation set; rows that are quoted are of McCoy et al. (2020), the first three with trees given",
    columns=(
        Column("test", "Full (Test)", "questions"),
        Column("gen-first-word", "First-word (Gen.)", "questions", ("gen", "first_word")),
        Column("gen", "Full (Gen.)", "questions", ("gen", "exact_match")),
    ),
    rows=(
        _questions("Tree-Tree", None, Published(0.96), Published(0.99)),
        _questions("Seq-Tree", None, Published(0.00), Published(0.90)),
        _questions("Tree-Seq", None, Published(0.96), Published(0.13)),
        _questions("Seq-Seq", None, Published(0.88), Published(0.03)),
        _questions("Seq-CTree", "paper-questions-seq-ctree", Published(1.00, 0.00), Published(0.83, 0.19)),
        _questions("OM-CTree", "paper-questions", Published(1.00, 0.00), Published(0.93, 0.07)),
        Row("torch-ctree", "ours", presets={"questions": "questions"}),
    ),
    seeds=5,
    scale=1,
    digits=2,
)

TABLES = {table.task: table for table in (SCAN, QUESTIONS)}
"""By task."""
