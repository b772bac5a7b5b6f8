"""Make what ``docs/results.md`` shows from the files in ``results/``: SVG figures, and pieces of text to include.

Nothing in them is typed by hand, and the same files give the same figures on every run. A row, a split or a task that
has not been run yet says so, or has no panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from figures import ACCENT, COLOURS, FAINT, INK, STYLE, canvas, save
from matplotlib import colormaps, pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from nltk import Tree
from result_text import CELL, LENGTH, SCAN, pieces

from torch_ctree.data.disk import write
from torch_ctree.data.errors import count
from torch_ctree.evaluation.cells import KINDS, TIMES, Cell
from torch_ctree.experiments import TABLES, Column, Result, Row, Table, read_results
from torch_ctree.experiments.comparing import answer, contrast
from torch_ctree.experiments.report import Results
from torch_ctree.experiments.results import done
from torch_ctree.experiments.summary import Sample, cell_means
from torch_ctree.viewing import fold

DOCS = Path(__file__).parent
RESULTS, PIECES = DOCS.parent / "results", DOCS / "pieces"
NOT_YET = "not run yet"
HEAT = colormaps["cividis"]  # dark to light for every reader, colour-blind or not
WORDS = [COLOURS[n] for n in (0, 5, 2, 6, 7, 3)]  # of a tree, in the order they come
OURS, PUBLISHED = "#0077bb", "#ee7733"  # Paul Tol's "vibrant" blue and orange
LINE = "#d5dae0"
WIDTH = 11.5


def missing(axes: Axes) -> None:
    """An empty panel that says why."""
    axes.text(0.5, 0.5, NOT_YET, ha="center", va="center", color=FAINT, transform=axes.transAxes)


# --- heat maps --------------------------------------------------------------------------------------------------------


def heat_map(axes: Axes, means: dict[Cell, float], size: float) -> None:
    """Kinds of phrases from top to bottom, repetition from left to right; cells without test commands stay empty."""
    for (y, kind), (x, times) in product(enumerate(KINDS), enumerate(TIMES)):
        value = means.get((kind, times))
        fill, ink = ("none", INK) if value is None else (HEAT(value), "white" if value < 0.5 else INK)
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor="white" if value is not None else LINE))
        if value is not None:
            axes.text(x + 0.5, y + 0.5, f"{100 * value:.1f}", ha="center", va="center", color=ink, fontsize=size)


def heat_panel(axes: Axes, means: dict[Cell, float], title: str, size: float, kinds: bool) -> None:
    """A heat map with its names, those of kinds only where asked for; without numbers, why there are none."""
    axes.set(xlim=(0, len(TIMES)), ylim=(len(KINDS), -0.6))
    axes.set_title(title, fontsize=size + 1)
    heat_map(axes, means, size) if means else missing(axes)
    for x, times in enumerate(TIMES if means else ()):
        axes.text(x + 0.5, -0.12, times, ha="center", va="bottom", fontsize=size)
    for y, kind in enumerate(KINDS if kinds else ()):
        axes.text(-0.08, y + 0.5, kind, ha="right", va="center", fontsize=size)


def rows_with(results: Results, columns: Sequence[Column]) -> list[Row]:
    """Those that have runs on some of these."""
    return [row for row in SCAN.own if any(done(results.get((row.name, column.split), [])) for column in columns)]


def length_cells(results: Results) -> None:
    """LENGTH: a panel for each row that has runs."""
    rows = rows_with(results, [LENGTH])
    figure, panels = canvas(max(5.5, min(WIDTH, 3.6 * len(rows))), 3.3, max(1, len(rows)))
    for n, (axes, row) in enumerate(zip(panels, rows, strict=False)):
        some = done(results[row.name, LENGTH.split])
        title = f"{row.name}, {count(len(some), 'run')}"
        heat_panel(axes, cell_means(some), title, 10 if len(rows) < 4 else 9, kinds=n == 0)
    if not rows:
        missing(panels[0])
    save(figure, "results-length-cells")


def other_cells(results: Results) -> None:
    """All other splits, one below another for each row that has runs."""
    columns = [column for column in SCAN.columns if column != LENGTH]
    rows = rows_with(results, columns)
    figure, panels = canvas(WIDTH, 2 * max(1, len(rows)), len(columns), max(1, len(rows)))
    if not rows:
        missing(panels[len(columns) // 2])
    for axes, (row, column) in zip(panels, product(rows, columns), strict=False):
        means = cell_means(done(results.get((row.name, column.split), [])))
        heat_panel(axes, means, f"{row.name}\n{column.title}", 8, kinds=column == columns[0])
    save(figure, "results-other-cells")


# --- every seed -------------------------------------------------------------------------------------------------------


def seeds(table: Table, results: Results) -> None:
    """A panel for each column of a table: a dot for each run, and what was published."""
    figure, grid = pyplot.subplots(
        1,
        len(table.columns),
        figsize=(WIDTH, 1.3 + 0.5 * len(table.own)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axes, column in zip(grid[0], table.columns, strict=True):
        for y, row in enumerate(table.own):
            lane(axes, y, row, column, table, results.get((row.name, column.split), []))
        axes.set_title(column.title, fontsize=10)
        axes.set(xlim=(-0.06 * table.scale, 1.06 * table.scale), ylim=(len(table.own) - 0.5, -0.5))
        axes.set_xticks([0, table.scale / 2, table.scale])
        axes.tick_params(axis="x", labelsize=9)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.grid(axis="x", color=LINE, linewidth=0.7)
        axes.set_axisbelow(True)  # the grid
    grid[0][0].set_yticks(range(len(table.own)), [row.name for row in table.own], fontsize=10)
    figure.legend(handles=legend(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, f"results-{table.task}-seeds")


def legend() -> list[Line2D]:
    """What the marks of a lane are."""
    return [
        Line2D([], [], color=PUBLISHED, marker="D", markersize=4.5, label="published: mean ± standard deviation"),
        Line2D([], [], color=OURS, marker="o", markersize=4, linewidth=0, label="a run here"),
        Line2D([], [], color=INK, marker="|", markersize=11, linewidth=0, label="mean of the runs here"),
    ]


def lane(axes: Axes, y: int, row: Row, column: Column, table: Table, results: Sequence[Result]) -> None:
    """One row in one panel: above the line what was published, below it the runs, lower seeds higher up."""
    if printed := row.published.get(column.key):
        spread = printed.deviation or 0
        axes.errorbar(printed.mean, y - 0.27, xerr=spread, fmt="D", color=PUBLISHED, markersize=4.5, capsize=2.5)
    some = done(results)
    for n, result in enumerate(some):
        place = y + 0.45 * n / max(1, len(some) - 1) - 0.1
        value = table.scale * column.value(result["metrics"])
        axes.plot(value, place, "o", color=OURS, markersize=4, alpha=0.75, markeredgewidth=0)
    if some:
        middle = table.scale * Sample(tuple(column.value(result["metrics"]) for result in some)).mean
        axes.plot([middle, middle], [y - 0.17, y + 0.42], color=INK, linewidth=1.2, zorder=1.5)
    else:
        axes.text(table.scale / 2, y + 0.12, NOT_YET, ha="center", va="center", fontsize=8, color=FAINT)
    if failed := len(results) - len(some):
        axes.text(table.scale / 2, y + 0.44, f"{failed} failed", ha="center", va="center", fontsize=7.5, color=ACCENT)


# --- trees ------------------------------------------------------------------------------------------------------------


def short(word: str) -> str:
    """Of SCAN's actions: LEFT for I_TURN_LEFT."""
    return word.removeprefix("I_").removeprefix("TURN_")


@dataclass(frozen=True)
class Look:
    """How a tree is drawn."""

    colours: dict[str, str]
    size: float  # of letters
    turned: bool  # words run from the bottom to the top, where there is no room for them otherwise
    drop: float  # how far words reach below the tree


def branches(axes: Axes, tree: Tree | str, left: float, look: Look) -> tuple[float, float]:
    """Draw a tree whose words stand below the line 0 from ``left`` on → where its top is."""
    if isinstance(tree, str):
        word(axes, tree, left, look)
        return left + 0.5, 0
    tops: list[tuple[float, float]] = []
    for part in tree:
        tops.append(branches(axes, part, left, look))
        left += len(part.leaves()) if isinstance(part, Tree) else 1
    x, y = (tops[0][0] + tops[-1][0]) / 2, max(height for _, height in tops) + 1
    for below, height in tops:
        axes.plot([x, below, below], [y, y, height], color=INK, linewidth=1.1, solid_joinstyle="round", zorder=1)
    if tree.label().startswith("×"):
        style = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": INK, "linewidth": 0.8}
        axes.text(x, y, tree.label(), ha="center", va="center", fontsize=look.size, fontweight="bold", bbox=style)
    return x, y


def word(axes: Axes, text: str, left: float, look: Look) -> None:
    box = Rectangle((left + 0.04, -look.drop), 0.92, look.drop, facecolor=look.colours[text], edgecolor="none")
    axes.add_patch(box)
    style = {"fontsize": look.size, "rotation": 90 if look.turned else 0}
    axes.text(left + 0.5, -look.drop / 2, short(text), ha="center", va="center", **style)


def tree_panel(axes: Axes, tree: Tree, levels: int, colours: dict[str, str], room: float) -> None:
    """A tree in a panel so many inches wide and as high as the highest one beside it; a small one does not fill it."""
    words = len(tree.leaves())
    turned = room / words < 0.5
    span = words if turned else max(words, room / 0.7)
    drop = levels * (0.24 if turned else 0.14)
    branches(axes, tree, (span - words) / 2, Look(colours, min(9, 50 * room / words), turned, drop))
    axes.set(xlim=(0, span), ylim=(-drop, levels + 0.6))


def tree_pair(results: Results) -> None:
    """The trees of two runs for the same command, as they are and folded, side by side."""
    pair = contrast(SCAN, results, LENGTH, CELL)
    trees = [Tree.fromstring(found["tree"]) for result in pair if (found := answer(result, CELL))]
    sizes = [max(len(tree.leaves()), 12) for tree in trees] or [1]
    figure, panels = canvas(WIDTH, 6, len(sizes), 2, sizes)
    if not pair:
        missing(panels[0])
    words = dict.fromkeys(word for tree in reversed(trees) for word in tree.leaves())
    colours = {word: WORDS[n % len(WORDS)] for n, word in enumerate(words)}
    drawn = [*trees, *(Tree.convert(fold(tree)) for tree in trees)]
    for n, (axes, tree) in enumerate(zip(panels, drawn, strict=False)):
        first = n - n % len(sizes)
        levels = max(beside.height() - 1 for beside in drawn[first : first + len(sizes)])
        tree_panel(axes, tree, levels, colours, WIDTH * sizes[n % len(sizes)] / sum(sizes))
        axes.set_title(heading(pair[n]) if n < len(pair) else "the same, folded", fontsize=11)
    save(figure, "results-trees")


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
    with pyplot.rc_context(STYLE):
        length_cells(results["scan"])
        other_cells(results["scan"])
        tree_pair(results["scan"])
        for task, table in TABLES.items():
            seeds(table, results[task])


if __name__ == "__main__":
    main()
