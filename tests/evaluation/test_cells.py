from collections import Counter
from itertools import product

import pytest

from torch_ctree.data import scan
from torch_ctree.evaluation import Prediction, by_cell, cell

PHRASES = 34 * 3
"""Of all commands: four verbs alone, five with each of three kinds in two directions; once, twice or thrice."""
KINDS = {"none": 4, "direction": 10, "opposite": 10, "around": 10}


def answered(sources, right):
    return [Prediction("test", n, source, "X", "X" if right(source) else "Y", 0.0) for n, source in enumerate(sources)]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("jump", ("none", "once")),
        ("jump thrice", ("none", "thrice")),
        ("turn right", ("direction", "once")),
        ("walk left twice", ("direction", "twice")),
        ("turn opposite left", ("opposite", "once")),
        ("look around right thrice", ("around", "thrice")),
    ],
)
def test_the_cell_of_a_phrase(phrase, expected):
    assert cell(phrase) == expected


def test_every_phrase_has_one():
    phrases = {phrase for source in scan.everything().sources() for phrase in scan.phrases(source)}
    assert len(phrases) == PHRASES
    times = ("once", "twice", "thrice")
    assert Counter(map(cell, phrases)) == {(kind, time): KINDS[kind] for kind, time in product(KINDS, times)}


def test_commands_that_have_a_phrase_of_a_cell():
    """Alone, or in one of two places, or in both: all pairs of phrases but those that have it in neither."""
    found = by_cell(answered(scan.everything().sources(), lambda source: True))
    for (kind, _), share in found.items():
        n = KINDS[kind]
        assert share.right == share.total == n + 2 * (PHRASES**2 - (PHRASES - n) ** 2)
    assert len(found) == 12


def test_what_is_wrong_counts_in_each_of_its_cells():
    sources = ["walk", "walk and jump twice", "jump twice after run left", "run left", "walk twice after jump twice"]
    found = by_cell(answered(sources, lambda source: "jump" not in source))
    assert {name: (share.right, share.total) for name, share in found.items()} == {
        ("none", "once"): (1, 2),
        ("none", "twice"): (0, 3),
        ("direction", "once"): (1, 2),
    }
    assert by_cell([]) == {}
