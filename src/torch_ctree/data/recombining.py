"""Sources that are new, made of those that are known."""

from __future__ import annotations

from torch_ctree.data.encoding import Encoded, Side
from torch_ctree.data.order import Purpose, random_bits

TRIES = 20
"""For each source that is wanted."""
EDGE = -1

Row = tuple[int, ...]
Between = dict[tuple[int, int], list[int]]
"""What stands between any two tokens, or a token and an edge."""


def recombined(sources: Side, most: int, *key: int) -> Encoded:
    """Known sources with tokens exchanged, none of them known, each once; their targets mean nothing.

    A new token has stood between the same two neighbours in another source: so what comes out is much like what goes
    in, and has words together that have never met. Nobody knows what the answers are.

    most: how many, at most; fewer, or none, where there are hardly any
    key: of the chance that chooses them, such as a seed

    >>> known = Side.of([(1, 2, 3, 4), (1, 5, 3, 6)])  # between 1 and 3 has stood 2, and 5
    >>> sorted(recombined(known, 10).source.rows())
    [(1, 2, 3, 6), (1, 5, 3, 4)]
    """
    rows = sorted(set(sources.rows()))
    found: dict[Row, None] = {}
    if rows:
        known, between = set(rows), _between(rows)
        chance = random_bits(Purpose.RECOMBINED, *key)
        for which, *numbers in chance.random_raw((TRIES * most, 1 + max(map(len, rows)))).tolist():
            made = _exchanged(rows[which % len(rows)], numbers, between)
            if made not in known:
                found[made] = None
            if len(found) == most:
                break
    return Encoded.untold(Side.of(found))


def _between(rows: list[Row]) -> Between:
    found: dict[tuple[int, int], set[int]] = {}
    for row in rows:
        for before, token, after in zip((EDGE, *row), row, (*row[1:], EDGE), strict=False):
            found.setdefault((before, after), set()).add(token)
    return {neighbours: sorted(tokens) for neighbours, tokens in found.items()}


def _exchanged(row: Row, numbers: list[int], between: Between) -> Row:
    """The row with another token, or the same again, at about half of its places, as the numbers (64 bits) have it."""
    edged = [EDGE, *row, EDGE]
    for place, number in enumerate(numbers[: len(row)], 1):
        choices = between.get((edged[place - 1], edged[place + 1]))  # none where a neighbour is new there
        if choices and number >> 63:
            edged[place] = choices[number % len(choices)]
    return tuple(edged[1:-1])
