"""What was published, to stand beside the numbers of a single run."""

from __future__ import annotations

from torch_ctree.experiments.comparing import leading
from torch_ctree.experiments.summary import BINS, bars, number
from torch_ctree.experiments.tables import TABLES, Column, Published, Row, Table
from torch_ctree.training import TrainConfig, build, presets, read
from torch_ctree.training.configuration import OF_NO_INTEREST, differences
from torch_ctree.viewing.report import Beside

MAY_DIFFER = ("seed", "data.root", "data.distilled", *OF_NO_INTEREST)
"""Settings that do not make a run one of another row."""


def beside(config: TrainConfig) -> Beside:
    """What was published of the row that a run with these settings is of; nothing, where it is of none."""
    known = presets()
    for table in TABLES.values():
        for row in table.own:
            for split, name in row.presets.items():
                taught = _is_taught(config) == (row.teacher is not None)
                if taught and name in known and _is_same(build(read(known[name])), config):
                    return of_row(table, row, split)
    return Beside()


def _is_same(preset: TrainConfig, config: TrainConfig) -> bool:
    return all(name in MAY_DIFFER for name, _, _ in differences(preset, config))


def _is_taught(config: TrainConfig) -> bool:
    """Whether it learns from another model's answers."""
    return config.data.distilled is not None


def of_row(table: Table, row: Row, split: str) -> Beside:
    """What was published of a row, in percent; of the paper's best one, where the row is ours."""
    numbers: dict[tuple[str, str], str] = {}
    whose: dict[str, None] = {}
    for column in table.columns:
        theirs = row if row.published else leading(table.rows, column)
        if column.split == split and theirs is not None and (printed := theirs.published.get(column.key)):
            numbers[_place(column)] = _percent(printed, column, table)
            whose[theirs.name] = None
    if not numbers:
        return Beside()
    best = "" if row.published else ", the paper's best"
    source = f"{' and '.join(whose)}{best} ({table.title}): mean ± standard deviation of {table.seeds} runs"
    histogram = ", below it how many of them are in each tenth from 0 to 100 percent"
    return Beside(source + histogram * any("\n" in text for text in numbers.values()), numbers)


def _place(column: Column) -> tuple[str, str]:
    """The set and the metric of a column, as evaluations have them."""
    *inner, metric = column.metric
    return (inner[0] if inner else "test"), metric


def _percent(printed: Published, column: Column, table: Table) -> str:
    scale, digits = 100 / table.scale, table.digits - (2 if table.scale == 1 else 0)
    values = [printed.mean, *([] if printed.deviation is None else [printed.deviation])]
    lines = [" ± ".join(number(scale * value, digits) for value in values) + "%" * (column.unit == 1)]
    return "\n".join([*lines, *([bars(printed.histogram[:BINS])] if printed.histogram else [])])
