"""Accuracy by the length of the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from torch_ctree.viewing.pictures.sheets import legend, nothing, settled, sheet
from torch_ctree.viewing.pictures.style import RULE, WIDTH, colour, dashes, styled


@styled
def accuracy_by_length(
    shares: Mapping[str, Mapping[int, tuple[int, int]]], about: str = "words of the target", width: float = WIDTH
) -> Figure:
    """A line for each name: the share of right answers by length. Below it, how many answers there are of each length.

    shares: name → length → how many are right, and how many there are
    about: what the lengths are of

    Where names have different numbers of answers of a length, the highest is shown.
    """
    totals: Counter[int] = Counter()
    for some in shares.values():
        totals |= Counter({length: total for length, (_, total) in some.items()})
    if not totals:
        return nothing(width)
    figure = sheet(width, 3)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for n, some in enumerate(shares.values()):
        right = {length: some[length][0] / some[length][1] for length in sorted(some) if some[length][1]}
        look = {"color": colour(n), "linestyle": dashes(n), "linewidth": 1.3, "markeredgewidth": 0, "clip_on": False}
        (line,) = above.plot(list(right), list(right.values()), marker="o", markersize=4, **look)
        line.set_in_layout(bool(right))  # where it is empty and not clipped, its place is not a number
    above.set(ylim=(-0.03, 1.03), ylabel="right")
    above.yaxis.set_major_formatter(PercentFormatter(1))
    above.grid(axis="y")
    above.tick_params(axis="x", length=0, labelbottom=False)
    below.bar(list(totals), list(totals.values()), color=RULE, width=0.8)
    below.set(xlim=(min(totals) - 1, max(totals) + 1), xlabel=about, ylabel="answers")
    below.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    below.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=2, min_n_ticks=1))
    if len(shares) > 1:
        legend(figure, dict(zip(shares, above.lines, strict=True)), handlelength=2.2)
    else:
        above.set_title(next(iter(shares)))
    return settled(figure)
