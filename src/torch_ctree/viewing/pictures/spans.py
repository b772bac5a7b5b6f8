"""How probable each span of a sentence is as a constituent, as a triangle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from torch_ctree.viewing.look import colour, ink
from torch_ctree.viewing.pictures.sheets import check_words, heading, key, nothing, panel, turned
from torch_ctree.viewing.pictures.style import RULE, SMALL, WIDTH, span, styled
from torch_ctree.viewing.text import percent, visible

SEEN = 0.005  # less is as good as impossible
SAID = "posterior probability 0%"
LEAST, MOST = 0.15, 0.9  # inches for a word


@styled
def span_triangle(spans: Sequence[Sequence[float]], words: Sequence[str], width: float = WIDTH) -> Figure:
    """A diamond for each span of two words or more, above the middle of its words, the higher the longer it is.

    spans: [i][j], the probability that the words from i to j, included, are a constituent
    width: in inches; many words take more

    Down its two lower sides one gets to the first and the last of its words. The darker, the more probable, as in the
    drawings of trees; where nothing is drawn the probability is less than half a percent.
    """
    shares = np.nan_to_num(np.asarray(spans, float))
    count = len(words)
    check_words(words, len(shares), "one for each row of the spans")
    if not count:
        return nothing(width)
    cell = max(LEAST, min(MOST, (width - 0.1) / count))
    names, is_written = list(map(visible, words)), cell >= 0.36
    below, high = turned(names, cell), cell * count / 2
    room = 1.25 + span(f"{SAID} to 100%", SMALL)  # for the key
    wide = max(cell * count, room) + 0.1
    figure = Figure(figsize=(wide, high + below + 0.35))
    axes = panel(figure, (wide - cell * count) / 2, 0.05, cell * count, high)
    axes.set(xlim=(0, count), ylim=(0, count / 2))
    axes.plot([0, count / 2, count, 0], [0, count / 2, 0, 0], color=RULE, linewidth=0.8, zorder=0.5)
    for i, j in zip(*np.nonzero(np.triu(shares, 1) >= SEEN), strict=True):
        x, y, share = (i + j + 1) / 2, (j - i) / 2, float(shares[i, j])
        corners = [(x - 0.5, y), (x, y + 0.5), (x + 0.5, y), (x, y - 0.5)]
        axes.add_patch(Polygon(corners, facecolor=colour(share), edgecolor=RULE, linewidth=0.6 if is_written else 0.2))
        if is_written:
            size = min(SMALL, 72 * cell / 3.4)
            axes.text(x, y, percent(share), ha="center", va="center", fontsize=size, color=ink(share))
    heading(axes, names, cell, -0.05 / cell, is_above=False)
    key(figure, (wide - room) / 2, high + below + 0.15, [colour(x) for x in np.linspace(0, 1, 12)], SAID, "100%")
    return figure
