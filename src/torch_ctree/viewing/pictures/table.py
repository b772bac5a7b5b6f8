"""The table of the dynamic programme as a heat map over positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from torch_ctree.trees import TreePosterior
from torch_ctree.trees.kernels import torch as kernel
from torch_ctree.trees.topology import topology_of
from torch_ctree.viewing.pictures.sheets import check_words, key, nothing, panel
from torch_ctree.viewing.pictures.style import (
    ACCENT,
    DARK,
    FAINT,
    FILLS,
    INK,
    RULE,
    SIZE,
    SMALL,
    WIDTH,
    every,
    shortened,
    span,
    styled,
)
from torch_ctree.viewing.text import visible

HEAT = colormaps["YlGnBu"]
LIGHTEST, DARKEST = 0.05, 0.6  # of it: both carry dark letters
BESIDE = 3 * "\N{NO-BREAK SPACE}"  # SVG has one blank for many others
NUMBER = 3.3  # ems that the number of a cell needs


class Alphas(NamedTuple):
    """The numbers of the table."""

    alphas: Sequence[Sequence[float]]
    """(N + 1, L + 1): log α_n[p], the weight of all beginnings of trees whose n leaves end at position p."""
    used: Sequence[Sequence[bool]]
    """(N + 1, L + 1): whether a tree of the whole sentence passes through."""
    ends: Sequence[int]
    """(N,) where the leaves of the best tree end; empty where there is no tree."""


def alphas_of(posterior: TreePosterior) -> Alphas:
    """The table of one sentence, which is not a batch."""
    length = int(posterior.lengths)
    weights, line = posterior.log_weights.detach()[None, :length], topology_of(posterior.log_weights)
    alphas = kernel.alphas(weights, posterior.lengths[None])[0]
    onwards = np.zeros(alphas.shape, bool)  # whether one gets from here to the end
    onwards[-1, -1] = True
    for n in reversed(range(length)):
        can = np.isfinite(weights[0, n].cpu().numpy()) & onwards[n + 1, line.ends]
        np.logical_or.at(onwards[n], line.starts, can)
    used = onwards & np.isfinite(alphas.cpu().numpy())
    best = posterior.argmax().vertices[:length].cpu()
    return Alphas(alphas.tolist(), used.tolist(), line.ends[best.numpy()].tolist() if used[0, 0] else [])


@styled
def dp_table(
    alphas: Sequence[Sequence[float]],
    words: Sequence[str],
    used: Sequence[Sequence[bool]] = (),
    ends: Sequence[int] = (),
    width: float = WIDTH,
) -> Figure:
    """A row for each number of words said, a column for each position of the line 0 … 2^D.

    alphas, used, ends: as in ``Alphas``; without ``used`` all cells count

    The darker a cell, the more probable; what leads to no tree of the whole sentence is grey, what is impossible empty.
    The cells of the best tree have frames, and between the rows lie its leaves' intervals. Where there is room, cells
    have their numbers.
    """
    values = np.asarray(alphas, float)
    if not values.size:
        return nothing(width)
    check_words(words, len(values) - 1, "one for each row of the table but the first")
    shown = (shortened(visible(word), 0.3 * width) for word in words)
    names = ["n = 0", *(f"{word}{BESIDE}n = {n}" for n, word in enumerate(shown, 1))]
    left = max(map(span, names)) + 0.1
    cell = min(0.62, (width - left - 0.15) / values.shape[1])
    size = min(SMALL, 72 * cell / NUMBER)
    is_written = size >= 6
    high = 0.36 if is_written else 0.19
    down = 0.3 + high * len(values)
    figure = Figure(figsize=(left + cell * values.shape[1] + 0.15, down + (0.05 if is_written else 0.4)))
    axes = panel(figure, left, 0.3, cell * values.shape[1], high * len(values))
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(len(values) - 0.5, -0.5))
    possible = np.isfinite(values)
    inside = possible & (np.asarray(used, bool) if len(used) else True)
    low, top = (values[inside].min(), values[inside].max()) if inside.any() else (0.0, 0.0)
    shares = (np.where(inside, values, low) - low) / ((top - low) or 1)
    fills = HEAT(LIGHTEST + (DARKEST - LIGHTEST) * shares)
    fills[~inside] = to_rgba(RULE, 0.18)
    fills[~possible] = 0
    axes.imshow(fills, interpolation="none", aspect="auto")
    if is_written:
        _numbers(axes, values, inside, size)
    else:
        scale = [to_hex(HEAT(x)) for x in np.linspace(LIGHTEST, DARKEST, 12)]
        key(figure, left, down + 0.15, scale, f"log α {_said(low)}", _said(top))
    for n, name in enumerate(names):
        axes.text(-0.5 - 0.08 / cell, n, name, ha="right", va="center", fontsize=SIZE)
    for p in range(0, values.shape[1], every(values.shape[1] - 1, cell)):
        axes.text(p, -0.6, str(p), ha="center", va="bottom", fontsize=SMALL)
    axes.text(-0.5 - 0.08 / cell, -0.6, "p =", ha="right", va="bottom", fontsize=SMALL)
    _way(axes, [0, *ends] if len(ends) else [])
    return figure


def _numbers(axes: Axes, values: np.ndarray, inside: np.ndarray, size: float) -> None:
    """And lines between their cells."""
    for n, p in np.argwhere(np.isfinite(values)):
        look: dict[str, Any] = {"color": DARK} if inside[n, p] else {"alpha": FAINT}
        axes.text(p, n, _said(float(values[n, p])), ha="center", va="center", fontsize=size, **look)
    rows, columns = values.shape
    axes.hlines(np.arange(rows + 1) - 0.5, -0.5, columns - 0.5, color=RULE, alpha=0.35, linewidth=0.6)
    axes.vlines(np.arange(columns + 1) - 0.5, -0.5, rows - 0.5, color=RULE, alpha=0.35, linewidth=0.6)


def _said(value: float) -> str:
    return f"{value + 0.0:.1f}".replace("-", "−")  # −0 is 0


def _way(axes: Axes, stops: Sequence[int]) -> None:
    """The cells that a tree passes through, and between the rows the intervals that lead from one to the next."""
    for n, (start, end) in enumerate(pairwise(stops)):
        bar = Rectangle(
            (start, n + 0.4), end - start, 0.2, facecolor=FILLS[n % len(FILLS)], edgecolor=INK, linewidth=0.8
        )
        bar.set_zorder(5)
        axes.add_patch(bar)
    for n, p in enumerate(stops):
        frame = Rectangle(
            (p - 0.5, n - 0.5), 1, 1, fill=False, edgecolor=ACCENT, linewidth=1.8, zorder=4, clip_on=False
        )
        axes.add_patch(frame)
