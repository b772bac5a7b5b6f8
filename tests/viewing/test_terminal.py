import pytest
from nltk import Tree

from torch_ctree.data import Example, scan
from torch_ctree.viewing import draw


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
