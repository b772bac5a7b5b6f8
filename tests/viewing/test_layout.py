import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look
from torch_ctree.viewing.layout import Box, Layout, Place, layout
from torch_ctree.viewing.text import ems, visible

from .trees import DEEP, MANY, balanced, chain, known, trees

LOOKS = [
    Look(probabilities=numbers, confidence=numbers, sideways=way) for numbers in (False, True) for way in (False, True)
]


def words_of(drawn: Layout) -> list:
    return [place for place in drawn.places if not place.vertex.children]


@pytest.mark.parametrize("look", LOOKS)
@settings(max_examples=15)
@given(tree=trees)
def test_every_vertex_once_and_every_word_in_order(look, tree):
    drawn = layout(tree, look)
    assert [place.vertex for place in drawn.places] == list(tree.walk())
    assert [place.texts[0].content for place in words_of(drawn)] == [visible(word) for word in tree.leaves]
    assert [len(place.branch) > 1 for place in drawn.places] == [False] + [True] * (len(drawn.places) - 1)


@pytest.mark.parametrize("look", LOOKS)
@settings(max_examples=15)
@given(tree=trees)
def test_no_words_overlap_and_all_is_inside(look, tree):
    drawn = layout(tree, look)
    boxes = [place.box for place in words_of(drawn)]
    for before, after in pairwise(boxes):
        if drawn.is_sideways:
            assert before.y + before.height <= after.y + 1e-6
        else:
            assert before.x + before.width <= after.x + 1e-6
    for place in drawn.places:
        assert min(place.box.x, place.box.y) >= 0
        assert place.box.x + place.box.width <= drawn.width
        assert place.box.y + place.box.height <= drawn.height
        for text in place.texts:
            length = ems(text.content) * text.size
            left = text.x - {"start": 0, "middle": length / 2, "end": length}[text.anchor]
            assert left >= 0
            assert left + length <= drawn.width + 1e-6
            assert 0 <= text.y <= drawn.height


@pytest.mark.parametrize("look", LOOKS)
@settings(max_examples=15)
@given(tree=trees)
def test_branches_are_straight_and_go_away_from_the_root(look, tree):
    for place in layout(tree, look).places:
        for start, end in pairwise(place.branch):
            assert math.isclose(start.x, end.x) or math.isclose(start.y, end.y)
        if place.branch:
            start, end = place.branch[0], place.branch[-1]
            assert end.x > start.x if look.sideways else end.y > start.y


def test_by_hand():
    drawn = layout(Vertex(children=(Vertex("a"), Vertex("b"))))
    root, left, right = drawn.places
    assert not drawn.is_sideways
    assert root.is_dot
    assert (left.path, right.path) == ("0", "1")
    assert left.box.y == right.box.y > root.box.y
    middle = root.box.x + root.box.width / 2
    assert middle == pytest.approx((left.box.x + right.box.x + right.box.width) / 2)
    assert [len(place.branch) for place in drawn.places] == [0, 3, 3]


def test_what_is_too_wide_is_turned():
    assert not layout(balanced(["a"] * 8)).is_sideways
    drawn = layout(balanced(MANY))
    assert drawn.is_sideways
    assert drawn.width < 500
    assert not layout(balanced(MANY), Look(sideways=False)).is_sideways
    assert len({place.texts[0].x for place in words_of(drawn)}) == 1


@pytest.mark.parametrize("tree", [balanced(DEEP), chain(DEEP)], ids=["balanced", "chain"])
def test_many_words_have_room(tree):
    drawn = layout(known(tree), Look(probabilities=True, confidence=True))
    lines = [place.texts[0].y for place in words_of(drawn)]
    assert len(lines) == len(DEEP)
    assert all(after - before >= 20 for before, after in pairwise(lines))


def test_notes():
    tree = known(balanced(["a", "b"]))
    assert layout(tree).notes == ()
    drawn = layout(tree, Look(probabilities=True, confidence=True))
    assert len(drawn.notes) == 3
    assert [swatch.share for swatch in drawn.swatches] == [0, 0.25, 0.5, 0.75, 1]
    assert layout(tree, Look(probabilities=True)).swatches == ()
    lowest = max(place.box.y + place.box.height for place in drawn.places)
    assert all(lowest < note.y < drawn.height for note in drawn.notes)


@pytest.mark.parametrize("sideways", [False, True])
@pytest.mark.parametrize("look", [Look(True, True), Look(confidence=True), Look(probabilities=True)])
def test_what_vertices_say_does_not_overlap_however_deep(look, sideways):
    """Of vertices in a line from the root, each below one alone."""
    tree = Vertex("c")
    for _ in range(60):
        tree = Vertex(children=(tree,), label="NP", split=0.75, confidence=0.5)
    drawn = layout(tree, replace(look, sideways=sideways))
    for above, below in pairwise(drawn.places):
        assert not any(overlap(one, other) for one in extents(above) for other in extents(below))


def extents(place: Place) -> list[Box]:
    """What a label with its frame, and a number, take."""
    found = [place.box] if place.vertex.children else []
    for text in place.texts[len(found) :]:
        length = ems(text.content) * text.size
        left = text.x - {"start": 0, "middle": length / 2, "end": length}[text.anchor]
        found.append(Box(left, text.y - 0.75 * text.size, length, 0.75 * text.size))
    return found


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )
