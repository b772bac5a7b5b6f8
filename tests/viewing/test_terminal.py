import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk import Tree

from torch_ctree.data import Example, scan
from torch_ctree.viewing import Look, draw, visible, width

from .trees import DEEP, MANY, balanced, chain, known, trees


def drawn(text: str) -> list[str]:
    return draw(Tree.fromstring(text)).splitlines()


def test_by_hand():
    assert drawn("(S (NP the old) (VP barks))") == [
        "       S",
        "   ┌───┴────┐",
        "   NP       VP",
        " ┌─┴──┐     │",
        "the  old  barks",
    ]
    assert drawn("(· walk)") == [" ·", " │", "walk"]
    assert drawn("(A a b c)") == ["   A", "┌──┼──┐", "a  b  c"]
    assert draw("word") == "word"


def test_words_that_are_wider_than_their_letters():
    lines = drawn("(· (· 熊 the) 睡)")
    assert lines == ["     ·", "  ┌──┴───┐", "  ·      │", "┌─┴──┐   │", "熊  the  睡"]


def test_a_label_wider_than_what_is_below():
    assert drawn("(Sentence a)") == ["Sentence", "│", "a"]
    assert drawn("(· (Sentence a) b)") == ["     ·", "┌────┴────┐", "Sentence  │", "│         │", "a         b"]


@pytest.mark.parametrize("n", range(0, 20_910, 997))
def test_words_stand_in_order_on_the_last_line(n):
    example = scan.everything()[n]
    for text, tree in zip(example, scan.gold(example), strict=True):
        lines = draw(tree).splitlines()
        assert lines[-1].split() == text.split()
        assert len(lines) == 2 * tree.height() - 1


def test_lines_join_what_belongs_together():
    """Every branch has a line or a label above it and something below it."""
    tree = scan.gold(Example("jump around left thrice after walk", "")).target
    lines = [line.ljust(300) for line in draw(tree).splitlines()]
    for above, line, below in zip(lines, lines[1:], lines[2:], strict=False):
        for n, character in enumerate(line):
            if character in "┴┼│":
                assert above[n] != " "
            if character in "┌┐┬│":
                assert below[n] != " "


FULL = Look(probabilities=True, confidence=True)


def test_with_what_is_known():
    tree = known(balanced(["jump", "left", "a"]))
    assert draw(tree, FULL).splitlines() == [
        "     50% ∧75%",
        "    ┌───┴────┐",
        " 50% ∧75%    │",
        " ┌──┴──┐     │",
        "jump  left   a",
        "25%   25%   25%",
        "% in colour: posterior probability of the constituent",
        "∧%: probability of a split",
        "% at a word: its probability there",
    ]


SMALL = Tree.fromstring("(S (NP the dog) (VP (V barks) loudly))")


def test_sideways():
    assert draw(SMALL, Look(sideways=True)).splitlines() == [
        "S─┬─NP─┬───── the",
        "  │    └───── dog",
        "  └─VP─┬─V─── barks",
        "       └───── loudly",
    ]
    assert draw(balanced(["a", "熊", "c", "d"]), Look(sideways=True)).splitlines() == [
        "┬─┬─ a",
        "│ └─ 熊",
        "└─┬─ c",
        "  └─ d",
    ]
    assert draw("walk", Look(sideways=True)) == "walk"
    assert draw(Tree.fromstring("(· walk)"), Look(sideways=True)) == "── walk"


def test_numbers_of_words_stand_in_a_column():
    lines = draw(known(balanced(["a", "熊熊", "c"])), replace(FULL, sideways=True)).splitlines()[:3]
    assert lines == [
        "50% ∧75%─┬─50% ∧75%─┬─ a     25%",
        "         │          └─ 熊熊  25%",
        "         └──────────── c     25%",
    ]


def test_as_wide_as_there_is_room():
    """Words in a row; then below one another; then closer; then each vertex on a line; closer; without the root."""
    assert "the  dog" in draw(SMALL, room=23)
    assert draw(SMALL, room=22) == draw(SMALL, room=20) == draw(SMALL, Look(sideways=True))
    assert draw(SMALL, room=19).splitlines() == [
        "S─┬NP─┬─── the",
        "  │   └─── dog",
        "  └VP─┬V── barks",
        "      └─── loudly",
    ]
    assert draw(SMALL, room=16).splitlines() == [
        "S",
        "├─ NP",
        "│ ├─ the",
        "│ └─ dog",
        "└─ VP",
        "  ├─ V",
        "  │ └─ barks",
        "  └─ loudly",
    ]
    assert draw(SMALL, room=11).splitlines()[-3:] == [" ├ V", " │└ barks", " └ loudly"]
    assert draw(SMALL, room=1) == draw(SMALL, room=11)


@pytest.mark.parametrize("look", [Look(), FULL], ids=["plain", "full"])
@pytest.mark.parametrize("tree", [chain(DEEP), balanced(DEEP), balanced(MANY)], ids=["chain", "balanced", "many"])
def test_trees_without_end(tree, look):
    lines = draw(known(tree), look, room=80).splitlines()
    assert max(map(width, lines)) <= 80
    wanted = set(tree.leaves)
    words = [word for line in lines for word in line.split() if word in wanted]
    assert tuple(words) == tree.leaves


def test_levels_that_are_left_out():
    lines = draw(chain(DEEP[:100]), room=40).splitlines()
    assert lines[0] == "     ┬─ w0"
    assert lines[-2:] == ["3… : without the 3 levels next to the", "root"]
    assert [line.split("…")[0] for line in lines if "w98" in line] == [" 84"]


@pytest.mark.parametrize("look", [Look(), FULL])
@settings(max_examples=15)
@given(tree=trees)
def test_every_word_in_order(look, tree):
    wanted = [visible(word) for word in tree.leaves]
    upright = draw(tree, look).split("\n")
    sideways = draw(tree, replace(look, sideways=True)).split("\n")
    assert any("".join(line.split()) == "".join("".join(wanted).split()) for line in upright)
    assert all(word.rstrip() in line for line, word in zip(sideways, wanted, strict=False))


@given(tree=trees, room=st.integers(1, 60))
def test_colours_are_all_that_colour_changes(tree, room):
    plain, coloured = (draw(tree, FULL, room, colour=colour) for colour in (False, True))
    without = re.sub("\x1b\\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.split("\n")] == plain.split("\n")


def test_colours():
    tree = replace(balanced(["a", "b"]), confidence=1.0)
    assert draw(tree, FULL, colour=True).splitlines()[0] == "\x1b[38;5;231;48;5;18m100%\x1b[0m"
    assert "\x1b" not in draw(tree, FULL)


def test_folded():
    assert draw(balanced(["a", "a"]), Look(fold=True)) == "×2\n│\na"


def test_characters_that_a_terminal_would_obey():
    assert draw(Tree("a\x1b", ["b\n", "c"])).splitlines() == [" a\\x1b", " ┌─┴─┐", "b\\n  c"]


@pytest.mark.parametrize("room", [30, 40, 60])
@pytest.mark.parametrize("tree", [balanced(["a", "b"]), chain(["a"] * 60)], ids=["two", "chain"])
def test_notes_fit_too(tree, room):
    assert max(map(len, draw(known(tree), Look(probabilities=True, confidence=True), room).splitlines())) <= room


def test_a_narrow_room():
    assert max(map(len, draw(chain(["a"] * 60), room=20).splitlines())) <= 20
