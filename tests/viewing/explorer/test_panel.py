import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.explorer.panel import panel, percent

SOURCE = ("jump", "twice")


def text(html: str) -> list[str]:
    return [part.strip() for part in re.split(r"<[^>]*>", html) if part.strip()]


def test_a_word():
    leaf = Vertex(
        "JUMP",
        split=0.25,
        emission=0.5,
        confidence=1.0,
        words=(("JUMP", 0.5), ("WALK", 0.125)),
        attention=(0.75, 0.25),
        found=(1.0, 0.0),
    )
    assert text(panel(leaf, "0.1", SOURCE)) == [
        *("“JUMP”", "a word"),
        *("splits in two", "25.0%", "says its word", "50.0%"),
        *("What it may say", "JUMP", "50.0%", "WALK", "12.5%"),
        *("Where it looks in the source", "jump", "75.0%", "twice", "25.0%"),
        *("Where its word is looked for", "jump", "100.0%", "twice", "0%"),
    ]


def test_a_constituent():
    tree = Vertex(children=(Vertex("a"), Vertex("b")), split=0.9, confidence=0.125, words=(("a", 1.0),))
    found = panel(tree, "", SOURCE)
    assert text(found) == [
        *("“a b”", "2 words, in 2 parts"),
        *("splits in two", "90.0%", "is a constituent", "12.5%"),
        *("What it would say as a word", "a", "100.0%"),
    ]
    assert 'data-path=""' in found
    assert "--share: 0.900" in found


def test_of_a_grammar():
    found = text(panel(Vertex("JUMP", phrase=(0, 1), operator=3), "", SOURCE))
    assert found[2:] == ["Its phrase in the source:", "jump", "Its operator:", "3"]


def test_what_is_not_known_is_not_there():
    assert text(panel(Vertex("JUMP"), "", SOURCE)) == ["“JUMP”", "a word"]


def test_long_ones_are_shown_in_part():
    tree = Vertex(children=tuple(Vertex(f"w{n}") for n in range(9)), words=tuple((f"w{n}", 0.1) for n in range(20)))
    found = text(panel(tree, "", SOURCE))
    assert found[:2] == ["“w0 w1 w2 w3 w4 w5 …”", "9 words, in 9 parts"]
    assert found.count("10.0%") == 8


def test_words_are_no_html():
    found = panel(Vertex("<i>", words=(("<b>", 0.5),), attention=(1.0,)), "", ("&",))
    assert "<i>" not in found
    assert "<b>" not in found
    assert {"“&lt;i&gt;”", "&lt;b&gt;", "&amp;"} <= set(text(found))


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "0%"),
        (1.0, "100.0%"),
        (0.973, "97.3%"),
        (0.01, "1.0%"),
        (0.00123, "0.12%"),
        (0.0001, "0.01%"),
        (1e-9, "<0.01%"),
    ],
)
def test_percent(share, expected):
    assert percent(share) == expected


@given(st.floats(0, 1))
def test_all_shares_have_room(share):
    """In their column, which is six digits wide."""
    assert len(percent(share)) <= len("100.0%")
