"""The paper's tables as data: what was published, and which preset does the same here."""

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
    unit: float = 1
    """What is a whole there: 100 for BLEU."""

    def value(self, metrics: Mapping[str, Any]) -> float:
        """The number, from 0 to 1."""
        found: Any = metrics
        for name in self.metric:
            found = found[name]
        return found / self.unit


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
    teacher: str | None = None
    """The name of another row, of whose answers to the training sources this one learns."""
    baseline: bool = False
    """Whether it is there to be compared with: of the paper, but not its model."""

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
    """How many runs each number is of, here."""
    scale: int
    """A share of one is printed as so many."""
    digits: int
    histograms: bool = True
    """Whether it is told how many runs are in each tenth."""

    @property
    def splits(self) -> list[str]:
        """What rows are trained and tested on."""
        return list(dict.fromkeys(column.split for column in self.columns))

    @property
    def own(self) -> list[Row]:
        """The rows that can be trained here."""
        return [row for row in self.rows if row.presets]

    @property
    def across(self) -> int:
        """Panels beside one another, of a picture with one for each column."""
        return len(self.columns) if len(self.columns) <= 6 else len(self.columns) // 2

    def row(self, name: str) -> Row:
        """The one of that name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def numbers(self) -> str:
        """What stands in its cells."""
        histograms = ", and below it how many runs are in each tenth from 0 to 100 percent" if self.histograms else ""
        return f"{self.about}: mean ± standard deviation over the runs{histograms}"


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

# --- Table 3 ----------------------------------------------------------------------------------------------------------

TRANSFORMER = "Transformer"
PAIRS = {"en-de": "En-De", "de-en": "De-En"}


def _translation(name: str, ending: str, en_de: float, de_en: float, teacher: str | None = None) -> Row:
    """A row of the paper."""
    presets = {pair: f"paper-multi30k-{pair}{ending}" for pair in PAIRS}
    published = {"en-de": Published(en_de), "de-en": Published(de_en)}
    return Row(name, "paper", published, presets, teacher, baseline=ending != "")


def _both(key: str, title: str, *metric: str) -> list[Column]:
    """Of both directions."""
    return [Column(pair + key, name + title, pair, metric, 100) for pair, name in PAIRS.items()]


MULTI30K = Table(
    task="multi30k",
    title="Multi30k: Table 3",
    about="BLEU (sacreBLEU) of test 2016, and then of test 2017: of tokens in lower case, which the paper does "
    "not say its own are; *written*: of plain text with capitals, cut as mteval-v13a does it",
    columns=(
        *_both("", "", "bleu"),
        *_both("-written", ", written", "bleu_written"),
        *_both("-2017", ", 2017", "test_2017", "bleu"),
        *_both("-2017-written", ", 2017, written", "test_2017", "bleu_written"),
    ),
    rows=(
        _translation(TRANSFORMER, "-transformer", 33.6, 37.8),
        _translation("LSTM", "-lstm", 35.2, 38.0),
        _translation("LaNMT", "-lanmt", 26.6, 27.9),
        _translation("LaNMT + distill", "-lanmt", 28.5, 32.0, TRANSFORMER),
        _translation("OM-CTree", "", 33.4, 34.4),
        _translation("OM-CTree + distill", "", 34.7, 36.6, TRANSFORMER),
        Row(
            "torch-ctree",
            "ours",
            presets={pair: f"multi30k-{pair}" for pair in PAIRS},
            teacher=TRANSFORMER,
        ),
    ),
    seeds=3,
    scale=100,
    digits=1,
    histograms=False,
)

TABLES = {table.task: table for table in (SCAN, QUESTIONS, MULTI30K)}
"""By task."""
