"""Make what ``docs/results.md`` shows from the files in ``results/``: SVG figures, and pieces of text to include.

Nothing in them is typed by hand, and the same files give the same figures on every run. A row, a split or a task that
has not been run yet says so, or has no panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from figures import save
from nltk import Tree
from result_text import CELL, LENGTH, SCAN, pieces

from torch_ctree.data.disk import write
from torch_ctree.data.errors import count
from torch_ctree.evaluation.cells import KINDS, TIMES
from torch_ctree.experiments import TABLES, Column, Result, Row, Table, read_results
from torch_ctree.experiments.comparing import answer, contrast
from torch_ctree.experiments.page import lanes
from torch_ctree.experiments.report import Results
from torch_ctree.experiments.results import done
from torch_ctree.experiments.summary import cell_means
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look
from torch_ctree.viewing.layout import MARGIN, WORD, Layout, Text, layout
from torch_ctree.viewing.pictures import every_seed, heat_map
from torch_ctree.viewing.pictures.sheets import nothing
from torch_ctree.viewing.pictures.style import PAPER
from torch_ctree.viewing.svg import group, line, picture
from torch_ctree.viewing.text import ems

DOCS = Path(__file__).parent
RESULTS, PIECES = DOCS.parent / "results", DOCS / "pieces"
WIDTH = 11.5
HEAD = 22.0  # of a line of text above a tree, in the unit of layouts


# --- heat maps --------------------------------------------------------------------------------------------------------


def rows_with(results: Results, columns: Sequence[Column]) -> list[Row]:
    """Those that have runs on some of these."""
    return [row for row in SCAN.own if any(done(results.get((row.name, column.split), [])) for column in columns)]


def length_cells(results: Results) -> None:
    """LENGTH: a panel for each row that has runs."""
    panels = {}
    for row in rows_with(results, [LENGTH]):
        some = done(results[row.name, LENGTH.split])
        panels[f"{row.name}, {count(len(some), 'run')}"] = cell_means(some)
    figure = heat_map(panels, KINDS, TIMES, WIDTH)
    save(figure, "results-length-cells")


def other_cells(results: Results) -> None:
    """All other splits, one below another for each row that has runs."""
    columns = [column for column in SCAN.columns if column != LENGTH]
    panels = {
        f"{row.name}\n{column.title}": cell_means(done(results.get((row.name, column.split), [])))
        for row, column in product(rows_with(results, columns), columns)
    }
    figure = heat_map(panels, KINDS, TIMES, WIDTH, across=len(columns))
    save(figure, "results-other-cells")


# --- every seed -------------------------------------------------------------------------------------------------------


def seeds(table: Table, results: Results) -> None:
    """A panel for each column of a table: a dot for each run, and what was published."""
    figure = every_seed(lanes(table, results), table.scale, WIDTH, across=table.across)
    save(figure, f"results-{table.task}-seeds")


# --- trees ------------------------------------------------------------------------------------------------------------


def short(word: str) -> str:
    """Of SCAN's actions: LEFT for I_TURN_LEFT."""
    return word.removeprefix("I_").removeprefix("TURN_")


def shortened(tree: Vertex) -> Vertex:
    return replace(tree, word=tree.word and short(tree.word), children=tuple(map(shortened, tree.children)))


def tree_pair(results: Results) -> None:
    """The trees of two runs for the same command side by side, as they are, and folded below."""
    pair = contrast(SCAN, results, LENGTH, CELL)
    trees = [Tree.fromstring(found["tree"]) for result in pair if (found := answer(result, CELL))]
    upper = [layout(shortened(Vertex.of(tree))) for tree in trees]
    lower = [layout(shortened(Vertex.of(tree)), Look(fold=True)) for tree in trees]
    figure = beside(upper, lower, list(map(heading, pair))) if pair else nothing(WIDTH)
    save(figure, "results-trees")


def beside(upper: Sequence[Layout], lower: Sequence[Layout], heads: Sequence[str]) -> str:
    """Trees in columns, each below its lines of text; others below them."""
    groups, x = [], 0.0
    first, second = (max(drawn.height for drawn in row) for row in (upper, lower))
    down = (0, HEAD * 2, HEAD * 3 + first)  # of the text, and of both rows of trees
    for head, *column in zip(heads, upper, lower, strict=True):
        texts = [*head.splitlines(), "the same, folded"]
        lines = [
            line(Text(x + MARGIN, y + HEAD - 5, text, WORD, "start"))
            for y, text in zip((*down[:1], HEAD, down[2] - HEAD), texts, strict=True)
        ]
        moved = [
            f'<g transform="translate({x:.0f} {y:.0f})">{group(drawn)}</g>'
            for y, drawn in zip(down[1:], column, strict=True)
        ]
        groups += [*lines, *moved]
        x += max(*(drawn.width for drawn in column), *(ems(text) * WORD + 2 * MARGIN for text in texts)) + 2 * MARGIN
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return picture(x, down[2] + second, "Trees side by side, and folded below", paper + "".join(groups))


def heading(result: Result) -> str:
    """Which run a tree is of, and what it answers."""
    found = answer(result, CELL)
    assert found is not None, "contrast gives runs that have one"
    verdict = "right" if found["output"] == found["target"] else "wrong"
    exact = f"exact match {100 * result['metrics']['exact_match']:.1f} %"
    said = f"“{found['source']}”: {count(len(found['output'].split()), 'action')}, {verdict}"
    return f"{result['row']}, seed {result['seed']} ({exact})\n{said}"


def main() -> None:
    for name, text in pieces(RESULTS).items():
        write(PIECES / f"{name}.md", text + "\n")
    results = {task: read_results(table, RESULTS) for task, table in TABLES.items()}
    length_cells(results["scan"])
    other_cells(results["scan"])
    tree_pair(results["scan"])
    for task, table in TABLES.items():
        seeds(table, results[task])


if __name__ == "__main__":
    main()
