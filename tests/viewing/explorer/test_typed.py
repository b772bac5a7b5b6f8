import pytest

from torch_ctree.data import DataError, Subwords, Vocabulary
from torch_ctree.viewing.explorer.typed import MOST_LETTERS, check, cleaned, unfinished

MOST = 100
WORDS = Vocabulary(["jump", "walk", "and", "walks"])
OPEN = Vocabulary(["<unk>", "jump", "walk"], unknown="<unk>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ""),
        ("", ""),
        (" \t\n ", ""),
        ("  jump   twice", "jump twice"),
        ("jump\n", "jump "),
        ("jump\u3000twice\u2003", "jump twice "),
        ("a\ud800b", "a?b"),  # UTF-8 cannot spell it
    ],
)
def test_cleaned(text, expected):
    assert cleaned(text) == expected


def test_what_is_known_is_not_spoken_of():
    assert check("source", "jump and walk", WORDS, MOST) == ""
    assert check("source", " ".join(["jump"] * MOST), WORDS, MOST) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jmp", "Unknown in a source: 'jmp' (jump?). Known are jump, walk, and, walks."),
        ("walc and walc", "Unknown in a source: 'walc' (walk?). Known are"),
        ("q w jump", "Unknown in a source: 'q', 'w'. Known are"),
        ("a b c d e f g", "'a', 'b', 'c', 'd', 'e' and 2 more. Known are"),
        ("walk " + "x" * 500, "'" + "x" * 28 + "…. Known are"),
    ],
)
def test_unknown_words_are_named(text, said):
    with pytest.raises(DataError) as refused:
        check("source", text, WORDS, MOST)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_known_words_of_a_large_vocabulary():
    with pytest.raises(DataError, match=r"Known are w0, w1, w2, w3, w4, w5, w6, w7, …$"):
        check("target", "?", Vocabulary([f"w{n}" for n in range(1000)]), MOST)


def test_unknown_words_that_are_read_all_the_same():
    assert check("target", "jump hop", OPEN, MOST) == "Unknown in a target, and read as <unk>: 'hop'."
    assert check("target", "jump", OPEN, MOST) == ""


@pytest.mark.parametrize("words", [WORDS, OPEN])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x" * (MOST_LETTERS + 1), "The source is too long: 2,001 letters; at most 2,000 are read here."),
        ("jump " * (MOST + 1), "The source is too long: 101 words; at most 100 are read here."),
    ],
)
def test_too_long(text, said, words):
    with pytest.raises(DataError) as refused:
        check("source", text.strip(), words, MOST)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("jump", ""),
        ("jum", "jum"),
        ("walk a", "a"),
        ("walk", ""),  # one word, and the beginning of another
        ("jum ", ""),  # it is over
        ("jumpq", ""),
        ("jum walk", ""),
    ],
)
def test_what_may_become_a_word(text, expected):
    assert unfinished(text, WORDS) == expected


def test_pieces_of_words_are_always_known():
    pieces = Subwords.train(["low lower lowest"] * 9, size=260)
    assert check("source", "löwe", pieces, MOST) == ""
    assert unfinished("lo", pieces) == ""
