"""Sources that are new, made of those that are known."""

from __future__ import annotations

from torch_ctree.data.encoding import Encoded, Side
from torch_ctree.data.order import Purpose, random_bits

TRIES = 20
"""For each source that is wanted."""
EDGE = -1


def recombined(sources: Side, most: int, *key: int) -> Encoded:
    """Known sources with one token exchanged, none of them known, each once; their targets mean nothing.

    The new token has stood between the same two neighbours in another source: so what comes out is much like what goes
    in, and has words together that have never met. Nobody knows what the answers are.

    most: how many, at most; fewer, or none, where there are hardly any
    key: of the chance that chooses them, such as a seed

    >>> known = Side.of([(1, 2, 3, 4), (1, 5, 3, 6)])  # between 1 and 3 has stood 2, and 5
    >>> sorted(recombined(known, 10).source.rows())
    [(1, 2, 3, 6), (1, 5, 3, 4)]
    """
    rows = sorted(set(sources.rows()))
    found: dict[tuple[int, ...], None] = {}
    if rows:
        known, between = set(rows), _between(rows)
        for which, place, token in random_bits(Purpose.RECOMBINED, *key).random_raw((TRIES * most, 3)).tolist():
            row = rows[which % len(rows)]
            made = _exchanged(row, place % len(row), token, between)
            if made not in known:
                found[made] = None
            if len(found) == most:
                break
    return Encoded(Side.of(found), Side.of((0,) for _ in found))


def _between(rows: list[tuple[int, ...]]) -> dict[tuple[int, int], list[int]]:
    """What stands between any two tokens, or a token and an edge."""
    found: dict[tuple[int, int], set[int]] = {}
    for row in rows:
        for before, token, after in zip((EDGE, *row), row, (*row[1:], EDGE), strict=False):
            found.setdefault((before, after), set()).add(token)
    return {neighbours: sorted(tokens) for neighbours, tokens in found.items()}


def _exchanged(
    row: tuple[int, ...], place: int, number: int, between: dict[tuple[int, int], list[int]]
) -> tuple[int, ...]:
    """The row with another token at this place, or with the same one, as the number has it."""
    edged = (EDGE, *row, EDGE)
    choices = between[edged[place], edged[place + 2]]
    return (*row[:place], choices[number % len(choices)], *row[place + 1 :])
