"""A whole sweep on one page: every table that there are results of, with pictures, errors and trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from torch_ctree.data.disk import write
from torch_ctree.data.errors import DataError, count
from torch_ctree.evaluation.cells import KINDS, TIMES
from torch_ctree.experiments.comparing import answer, contrast, leading
from torch_ctree.experiments.report import (
    CELLS,
    LENGTHS,
    MADE,
    MORE,
    PHRASES,
    SEEDS,
    Lines,
    Results,
    by_row,
    comparison,
    details,
    failures,
    standing,
)
from torch_ctree.experiments.results import Entry, Result, done
from torch_ctree.experiments.summary import NOTHING, Sample, cell_means
from torch_ctree.experiments.tables import TABLES, Column, Row, Table
from torch_ctree.viewing.report import REPORT, errors
from torch_ctree.viewing.report.examples import example
from torch_ctree.viewing.report.folder import METRICS, Epoch, read_epochs
from torch_ctree.viewing.report.page import (
    Html,
    Section,
    abreast,
    code,
    folded,
    listed,
    missing,
    page,
    paragraph,
    picture,
    table,
    tag,
)
from torch_ctree.viewing.report.run import METRICS as METRIC_NAMES

PICTURE_WIDTH = 10.0  # inches: a page has more room than a column of text


def write_page(results: Mapping[str, Results], folder: Path, runs: Path) -> Path:
    """Make ``report.html`` in a folder of results → where it is.

    results: of each task
    runs: the folder of the runs, where their metrics are
    """
    path = folder / REPORT
    write(path, html(results, runs))
    return path


def html(results: Mapping[str, Results], runs: Path) -> str:
    """The page."""
    from torch_ctree import __version__  # noqa: PLC0415  (it imports everything)

    sections = [section for task, some in results.items() for section in _sections(TABLES[task], some, runs)]
    title = " and ".join(TABLES[task].title for task in results)
    lead = paragraph("The paper's tables, and what came out here: every number is from a result file.", kind="lead")
    return page(title, [lead], sections, f"Made from result files by torch-ctree {__version__}: ctree report")


def _sections(of: Table, results: Results, runs: Path) -> list[Section]:
    """One table: the comparison, and below it all that there is to say about its runs."""
    lines = details(of, results)
    folds = {name: folded("In numbers", table(some, words=2 + (name in THREE))) for name, some in lines.items() if some}
    parts: dict[str, Sequence[Html]] = {
        "Histograms over the seeds": _histograms(of, results) if of.histograms else [],
        "Every seed": [_every_seed(of, results), folds[SEEDS]],
        "How they learned": _curves(of, results, runs),
        "By words of the target": [*_lengths(of, results), folds[LENGTHS]],
        "By what a phrase of the command does": [*_cells(of, results), folds[CELLS]] if lines[CELLS][1:] else [],
        "Noun phrases that are constituents": [table(lines[PHRASES], words=4)] if lines[PHRASES] else [],
        "What goes wrong": _errors(of, results),
        "The worst and the best runs": _extremes(of, results),
        "Losses and trees": [table(lines[MORE], words=3)],
        "Runs that failed": [listed(failures(results))] if failures(results) else [],
        "How they were made": [*_versions(results), *_made(lines[MADE]), *_settings(of, results)],
    }
    said = (
        f"{of.numbers.replace('*', '')}. paper: as published; quoted: as published there, from another paper; "
        "here: our runs. "
    )
    whole = Section(of.title, [paragraph(said, f"{standing(of, results)}."), table(comparison(of, results), words=2)])
    return [whole, *(Section(title, content, is_part=True) for title, content in parts.items() if content)]


THREE = (MORE, LENGTHS)
"""Tables with three columns of words."""


# --- seeds ------------------------------------------------------------------------------------------------------------


def _histograms(of: Table, results: Results) -> list[Html]:
    """A picture for each row that has runs."""
    from torch_ctree.viewing.pictures import Counts, seed_histogram  # noqa: PLC0415  (matplotlib takes a while)

    found = []
    for row in of.own:
        panels = {
            column.title: Counts(
                _sample(results, row, column).histogram,
                printed.histogram if (printed := row.published.get(column.key)) else (),
            )
            for column in of.columns
        }
        if any(sum(counts.here) for counts in panels.values()):
            drawn = seed_histogram(panels, PICTURE_WIDTH, len(panels))
            found.append(picture(drawn, f"histograms over the seeds of {row.name}", row.name))
    return found


def _every_seed(of: Table, results: Results) -> Html:
    from torch_ctree.viewing.pictures import every_seed  # noqa: PLC0415

    drawn = every_seed(lanes(of, results), of.scale, PICTURE_WIDTH, of.across)
    return picture(drawn, f"every run of {of.title}", "A dot for each run, lower seeds higher up")


def lanes(of: Table, results: Results) -> dict[str, dict[str, Any]]:
    """Column → row → its runs and what was published, in the unit of the table."""
    from torch_ctree.viewing.pictures import Lane  # noqa: PLC0415

    found: dict[str, dict[str, Any]] = {column.title: {} for column in of.columns}
    for row, column in product(of.own, of.columns):
        some, printed = results.get((row.name, column.split), []), row.published.get(column.key)
        found[column.title][row.name] = Lane(
            [of.scale * value for value in _sample(results, row, column).values],
            None if printed is None else (printed.mean, printed.deviation or 0.0),
            len(some) - len(done(some)),
        )
    return found


def _sample(results: Results, row: Row, column: Column) -> Sample:
    some = done(results.get((row.name, column.split), []))
    return Sample(tuple(column.value(result["metrics"]) for result in some))


# --- curves -----------------------------------------------------------------------------------------------------------


def _curves(of: Table, results: Results, runs: Path) -> list[Html]:
    """A picture for each row and split, of the runs whose folders are here."""
    from torch_ctree.viewing.pictures import learning_curves  # noqa: PLC0415

    found = []
    for row, split in product(of.own, of.splits):
        some = {}
        for result in results.get((row.name, split), []):
            if epochs := _epochs(runs / Entry(of, row, split, result["seed"]).place / METRICS):
                some[f"seed {result['seed']}"] = epochs
        if some:
            title = f"{row.name}, {split}"
            drawn = picture(learning_curves(some, width=PICTURE_WIDTH), f"learning curves of {title}")
            found.append(folded(f"{title}: {count(len(some), 'run')}", drawn))
    if found:
        return found
    return [
        missing(f"No {METRICS} of these runs in ", code(str(runs / of.task)), "; another folder is named by --runs")
    ]


def _epochs(path: Path) -> list[Epoch]:
    try:
        return read_epochs(path)
    except DataError:
        return []


# --- parts of the test sets -------------------------------------------------------------------------------------------


def _sets(of: Table) -> list[tuple[str, str]]:
    """(Split, set) of all numbers."""
    return list(
        dict.fromkeys((column.split, column.metric[0] if column.metric[1:] else "test") for column in of.columns)
    )


def _metrics(result: Result, name: str) -> Mapping[str, Any]:
    """Of a set."""
    return result["metrics"] if name == "test" else result["metrics"][name]


def _named(of: Table, split: str, name: str) -> str:
    """A split and a set, as a heading has them."""
    title = next(column.title for column in of.columns if column.split == split)
    return title if len(of.splits) > 1 else name


def _lengths(of: Table, results: Results) -> list[Html]:
    """A picture for each set: a line for each row, its runs put together."""
    from torch_ctree.viewing.pictures import accuracy_by_length  # noqa: PLC0415

    found = []
    for split, name in _sets(of):
        shares: dict[str, dict[int, tuple[int, int]]] = {}
        for row in of.own:
            right, total = Counter[int](), Counter[int]()
            for result in done(results.get((row.name, split), [])):
                for words, share in _metrics(result, name)["by_length"].items():
                    right[int(words)] += share["right"]
                    total[int(words)] += share["total"]
            if total:
                shares[row.name] = {words: (right[words], total[words]) for words in total}
        if shares:
            title = _named(of, split, name)
            drawn = accuracy_by_length(shares, width=PICTURE_WIDTH / 2)
            found.append(picture(drawn, f"exact match by length, {title}", title, "half"))
    return [abreast(*found, are_even=True)] if found else []


def _cells(of: Table, results: Results) -> list[Html]:
    """A picture for each split: a map for each row."""
    from torch_ctree.viewing.pictures import heat_map  # noqa: PLC0415

    found = []
    for column in of.columns:
        maps = {row.name: cell_means(done(results.get((row.name, column.split), []))) for row in of.own}
        if any(maps.values()):
            drawn = heat_map({name: means for name, means in maps.items() if means}, KINDS, TIMES, PICTURE_WIDTH)
            found.append(picture(drawn, f"exact match by kinds of phrases, {column.title}", column.title))
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


def _errors(of: Table, results: Results) -> list[Html]:
    """The share of each kind among the wrong answers."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    quoted: set[tuple[str, str, str]] = set()
    for split, name in _sets(of):
        for row in of.own:
            if some := done(results.get((row.name, split), [])):
                where = (row.name, split, name)
                if not all("errors" in _metrics(result, name) for result in some):
                    quoted.add(where)
                kinds_of = _quoted_kinds if where in quoted else _all_kinds
                found[where] = sum((kinds_of(result, name) for result in some), Counter())
    every = sum(found.values(), Counter())
    kinds = [kind for kind, _ in every.most_common()]
    lines: Lines = [["model", "split", "set", "looked at", *(f"{kind}, %" for kind in kinds)]]
    for names, kind in found.items():
        if total := kind.total():
            lines.append(
                [*names, f"{total:,}{' *' * (names in quoted)}", *(f"{100 * kind[one] / total:.1f}" for one in kinds)]
            )
    said = "Wrong answers by what is wrong with them, the first kind that fits. "
    if quoted:
        said += "*: of runs that did not count them all, the few that their files quote, the first of each test set."
    about = [[kind.name, kind.about] for kind in errors.KINDS if kind.name in every]
    explained = folded("What the kinds mean", table([["kind", "what it is"], *about], words=2))
    return [paragraph(said), table(lines, words=3), explained] if about else []


def _all_kinds(result: Result, name: str) -> Counter[str]:
    """How many wrong answers of each kind a run has."""
    return Counter(_metrics(result, name)["errors"])


def _quoted_kinds(result: Result, name: str) -> Counter[str]:
    """The same of those that are quoted."""
    quoted = result.get("examples", {}).get(name, {}).get("wrong", [])
    return Counter(errors.kind_of(one["output"].split(), one["target"].split()).name for one in quoted)


def _extremes(of: Table, results: Results) -> list[Html]:
    """Of each set, what two runs say: the worst one of the paper's best row, and the best one of ours."""
    found = []
    for split, name in _sets(of):
        column = _leading_column(of, split, name)
        pair = _hardest(of, results, column) or _first(of, results, column, name)
        if pair:
            found += [tag("h4", _named(of, split, name)), abreast(*pair, are_even=True)]
    return found


def _leading_column(of: Table, split: str, name: str) -> Column:
    """That of whole sentences, where there is one, of a set."""
    inner = () if name == "test" else (name,)
    some = [column for column in of.columns if column.split == split and column.metric[:-1] == inner]
    return next((column for column in some if column.metric[-1] == "exact_match"), some[0])


def _hardest(of: Table, results: Results, column: Column) -> list[Html]:
    """SCAN: their answers to the simplest command with the phrase that most runs fail at."""
    every = [result for row in of.own for result in done(results.get((row.name, column.split), []))]
    means = cell_means(every)
    for cell in sorted(means, key=lambda one: means[one]):
        if pair := contrast(of, results, column, cell):
            return [_quoted(result, column, found) for result in pair if (found := answer(result, cell))]
    return []


def _first(of: Table, results: Results, column: Column, name: str) -> list[Html]:
    """Elsewhere: the first wrong answer of the one, and the first right one of the other."""
    ours = next((row for row in of.own if row.whose == "ours"), None)
    same = [column, *(other for other in of.columns if other.metric[:-1] == column.metric[:-1])]
    theirs = next(filter(None, (leading(of.own, one) for one in same)), ours)
    found = []
    for row, best, kinds in ((theirs, False, ("wrong", "right")), (ours, True, ("right", "wrong"))):
        some = done(results.get((row.name, column.split), [])) if row else []
        ranked = sorted(some, key=lambda result: column.value(result["metrics"]), reverse=best)
        for result in ranked[:1]:
            quoted = result.get("examples", {}).get(name, {})
            answers = [one for kind in kinds for one in quoted.get(kind, [])]
            found += [_quoted(result, column, one) for one in answers[:1]]
    return found


def _quoted(result: Result, column: Column, found: Mapping[str, Any]) -> Html:
    """An answer of a run, below its name."""
    called = METRIC_NAMES.get(column.metric[-1], column.metric[-1])
    good = f"{called} {100 * column.value(result['metrics']):.1f}{'%' * (column.unit == 1)}"
    return tag(
        "div",
        paragraph(f"{result['row']}, seed {result['seed']}: {good}", kind="caption"),
        example(found["source"], found["target"], found["output"], found["tree"]),
    )


# --- how they were made -----------------------------------------------------------------------------------------------


def _made(lines: Lines) -> list[Html]:
    """Where each row ran, from which commit, and what was typed."""
    return [folded("Machines, commits and commands", table(lines, words=2, last=4))] if lines[1:] else []


def _versions(results: Results) -> list[Html]:
    """Of the libraries, and when."""
    every = [result for some in results.values() for result in some]
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
        for result in every
        if "versions" in result
    )
    dates = sorted(result["date"] for result in every if "date" in result)
    spans = [f"From {dates[0]} to {dates[-1]}."] if dates else []
    return [paragraph(*spans, *(f" {version}." for version in versions), kind="faint")] if spans or versions else []


def _settings(of: Table, results: Results) -> list[Html]:
    """Every setting of each row; where it is not the same in all splits, with their names."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    rows: dict[str, None] = {}
    for row, split, some in by_row(of, results):
        rows[row] = None
        for section, values in some[0]["settings"].items():
            for name, value in values.items() if isinstance(values, Mapping) else ():
                by_value = found.setdefault(f"{section}.{name}", {}).setdefault(row, {})
                by_value.setdefault(NOTHING if value is None else str(value), []).append(split)
    lines = [["setting", *rows]]
    lines += [[name, *(_value(values.get(row, {})) for row in rows)] for name, values in found.items()]
    return [folded("Every setting", table(lines, words=1 + len(rows)))] if found else []


def _value(splits: Mapping[str, Sequence[str]]) -> str:
    if len(splits) == 1:
        return next(iter(splits))
    return "\n".join(f"{value}: {', '.join(names)}" for value, names in splits.items()) or NOTHING
