"""Draw the figures of the documentation into ``docs/figures/``, as SVG files that are the same on every run.

Everything shown is computed with the library. One sentence with one tree, taken from the paper's samples, goes through
all the pictures; its distribution is random, but leans towards that tree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, FancyArrowPatch

from torch_ctree import LatentTree
from torch_ctree.data.disk import write
from torch_ctree.trees import naive, paper
from torch_ctree.trees.topology import topology
from torch_ctree.viewing.pictures import alphas_of, as_svg, dp_table, leaf_intervals
from torch_ctree.viewing.pictures.intervals import box, ruler
from torch_ctree.viewing.pictures.sheets import sheet
from torch_ctree.viewing.pictures.style import ACCENT, FILLS, INK, PAPER, styled
from torch_ctree.viewing.text import percent

Nested = Sequence["Nested"] | str

FOLDER = Path(__file__).parent / "figures"
TREE: Nested = [[["an", ["older", "man"]], ["is", "playing"]], [["a", ["video", "game"]], "."]]
DEPTH = 4
SEED = 35  # of the example's distribution; chosen so that it has several probable trees


# --- the example ------------------------------------------------------------------------------------------------------


def words_of(tree: Nested) -> list[str]:
    return [tree] if isinstance(tree, str) else [word for part in tree for word in words_of(part)]


def leaves_of(tree: Nested, vertex: int = 0) -> list[int]:
    """The heap indices of a tree's leaves."""
    if isinstance(tree, str):
        return [vertex]
    return leaves_of(tree[0], 2 * vertex + 1) + leaves_of(tree[1], 2 * vertex + 2)


WORDS, LEAVES = words_of(TREE), leaves_of(TREE)
LINE = topology(DEPTH)


def example() -> LatentTree:
    """Random logits, and for each word a bonus at the vertices that overlap its place in the tree."""
    generator = torch.Generator().manual_seed(SEED)
    leaf_logits = torch.randn(LINE.vertices, generator=generator, dtype=torch.float64)
    token_logits = torch.randn(LINE.vertices, len(WORDS), generator=generator, dtype=torch.float64)
    starts, ends = torch.tensor(LINE.starts), torch.tensor(LINE.ends)
    shared = torch.minimum(ends[:, None], ends[LEAVES]) - torch.maximum(starts[:, None], starts[LEAVES])
    shared = shared.clamp_min(0)
    together = (ends - starts)[:, None] + (ends - starts)[LEAVES] - shared
    return LatentTree(leaf_logits, token_logits + 2.5 * shared / together)


# --- drawing ----------------------------------------------------------------------------------------------------------


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with panels beside each other that fill it and have no frame."""
    figure = sheet(width, height)
    panels = list(figure.subplots(1, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_axis_off()
    return figure, panels


def save(figure: Figure | str, name: str) -> None:
    """A picture, or what is SVG already."""
    write(FOLDER / f"{name}.svg", figure if isinstance(figure, str) else as_svg(figure, background=PAPER))


def vertex_box(axes: Axes, vertex: int, bottom: float, height: float, fill: str) -> None:
    """A vertex's interval as a rectangle."""
    box(axes, LINE.starts[vertex], LINE.ends[vertex], bottom, height, fill)


def centre(vertex: int, depth: int = DEPTH) -> tuple[float, float]:
    """Where a tree's picture has a vertex: above the middle of its interval, one row a level."""
    tree = topology(depth)
    return (tree.starts[vertex] + tree.ends[vertex]) / 2, depth - (vertex + 1).bit_length() + 1


def edges(axes: Axes, vertices: list[int], depth: int) -> None:
    """Lines from vertices to their parents."""
    for vertex in vertices:
        (x, y), (parent_x, parent_y) = centre(vertex, depth), centre((vertex - 1) // 2, depth)
        axes.plot([parent_x, x], [parent_y, y], color=INK, linewidth=1.2, zorder=2)


def node(axes: Axes, x: float, y: float, label: object, fill: str = "white") -> None:
    axes.plot(x, y, "o", markersize=19, markerfacecolor=fill, markeredgecolor=INK, markeredgewidth=1, zorder=4)
    axes.text(x, y, str(label), ha="center", va="center_baseline", fontsize=9.5, zorder=5)


# --- the figures ------------------------------------------------------------------------------------------------------


def intervals() -> None:
    """The tree, and below it the line that its leaves cover."""
    figure, (axes,) = canvas(10, 4.9)
    inner = sorted({ancestor for leaf in LEAVES for ancestor in ancestors(leaf)})
    edges(axes, [vertex for vertex in inner + LEAVES if vertex > 0], DEPTH)
    for vertex in inner:
        node(axes, *centre(vertex), vertex)
    for word, leaf, colour in zip(WORDS, LEAVES, FILLS, strict=True):
        (x, y), (start, end) = centre(leaf), (LINE.starts[leaf], LINE.ends[leaf])
        axes.fill([x, start, end], [y, -0.9, -0.9], color=colour, alpha=0.35, linewidth=0)
        node(axes, x, y, leaf, colour)
        vertex_box(axes, leaf, -1.6, 0.7, colour)
        axes.text(x, -1.25, word, ha="center", va="center", fontsize=11)
    ruler(axes, -1.6, LINE.positions, 0.6, 0.75)
    axes.set(xlim=(-0.3, LINE.positions + 0.3), ylim=(-2.15, 4.35))
    save(figure, "intervals")


def ancestors(vertex: int) -> list[int]:
    return [] if vertex == 0 else [(vertex - 1) // 2, *ancestors((vertex - 1) // 2)]


def arcs() -> None:
    """Depth 2: the successive-leaf transitions between vertices, and the vertices as arcs between positions."""
    figure, (left, right) = canvas(10, 3.6, columns=2)
    tree, pairs = topology(2), sorted(paper.successive_leaves(2).successive)
    edges(left, list(range(1, tree.vertices)), tree.depth)
    for vertex in range(tree.vertices):
        node(left, *centre(vertex, tree.depth), vertex)
    for before, after in pairs:
        ends = centre(before, tree.depth), centre(after, tree.depth)
        style = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 12, "shrinkB": 12, "color": ACCENT}
        left.add_patch(FancyArrowPatch(*ends, connectionstyle="arc3,rad=-0.22", linewidth=1.3, zorder=3, **style))
    left.set(xlim=(-0.1, 4.1), ylim=(-0.4, 2.3))
    left.set_title(f"which leaf can follow which: {len(pairs)} pairs of vertices", fontsize=11)

    for vertex, (start, end) in enumerate(zip(tree.starts.tolist(), tree.ends.tolist(), strict=True)):
        middle, width = (start + end) / 2, end - start
        right.add_patch(Arc((middle, 0), width, width, theta1=0, theta2=180, color=ACCENT, linewidth=1.3))
        node(right, middle, width / 2, vertex)
    for position in range(tree.positions + 1):
        right.plot(position, 0, "o", color=INK, markersize=7)
        right.text(position, -0.18, str(position), ha="center", va="top", fontsize=11)
    right.set(xlim=(-0.3, 4.3), ylim=(-0.4, 2.3))
    right.set_title(f"each vertex as an arc: {tree.vertices} arcs between {tree.positions + 1} positions", fontsize=11)
    save(figure, "arcs")


def table(dist: LatentTree) -> None:
    """α_n[p] for the sentence, and the way of its best tree through it."""
    found = alphas_of(dist.posterior(torch.arange(len(WORDS))))
    save(dp_table(found.alphas, WORDS, found.used, found.ends, width=11.5), "table")


def posterior(dist: LatentTree) -> None:
    """Every vertex of the complete tree as its interval, shaded by how probably it is a leaf."""
    marginals = dist.posterior(torch.arange(len(WORDS))).marginals()
    save(leaf_intervals(marginals.tolist(), WORDS, width=11), "posterior")


def k_best(dist: LatentTree) -> None:
    """The sentence's best trees as strips of intervals."""
    posterior = dist.posterior(torch.arange(len(WORDS)))
    best = posterior.topk(6)
    figure, (axes,) = canvas(11, 3.9)
    for row, (vertices, log_prob) in enumerate(zip(best.vertices.tolist(), best.log_prob, strict=True)):
        axes.text(-0.25, -row, percent(log_prob.exp().item()), ha="right", va="center", fontsize=11)
        for word, leaf, colour in zip(WORDS, vertices, FILLS, strict=True):
            vertex_box(axes, leaf, -row - 0.36, 0.72, colour)
            axes.text(centre(leaf)[0], -row, word, ha="center", va="center", fontsize=10)
    rest = naive.count(DEPTH, len(WORDS)) - len(best.vertices)
    share = 1 - best.log_prob.exp().sum().item()
    axes.text(-0.25, -6, percent(share), ha="right", va="center", fontsize=11)
    others = f"the {rest} other trees together; the entropy of all is {posterior.entropy():.2f} nats"
    axes.text(0, -6, others, ha="left", va="center", fontsize=11)
    axes.set(xlim=(-1.3, 16.2), ylim=(-6.5, 0.6))
    save(figure, "k_best")


def numbers(dist: LatentTree) -> None:
    """What the text says about the example, for a test to compare."""
    posterior = dist.posterior(torch.arange(len(WORDS)))
    values = {
        "log p(x)": round(posterior.log_evidence().item(), 1),
        "entropy": round(posterior.entropy().item(), 2),
        "trees": naive.count(DEPTH, len(WORDS)),
        "entropy if all were equally probable": round(math.log(naive.count(DEPTH, len(WORDS))), 2),
        "seed": SEED,
    }
    (FOLDER / "numbers.json").write_text(json.dumps(values, indent=1) + "\n")


@styled
def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    dist = example()
    intervals()
    arcs()
    table(dist)
    posterior(dist)
    k_best(dist)
    numbers(dist)


if __name__ == "__main__":
    main()
