import pytest

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look
from torch_ctree.viewing.look import SCALE, colour, contrast, ink

FULL = Look(probabilities=True, confidence=True)


def test_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1


def test_numbers_can_be_read_on_all_colours():
    assert all(contrast(colour(n / 100), ink(n / 100)) >= 4.5 for n in range(101))


def test_the_scale_goes_from_light_to_dark():
    """So that it says the same to those who see fewer colours, and in print."""
    lightness = [contrast(shade, "#000000") for shade in SCALE]
    assert lightness == sorted(lightness, reverse=True)
    steps = [colour(n / 50) for n in range(51)]
    assert [contrast(shade, "#000000") for shade in steps] == sorted(
        (contrast(shade, "#000000") for shade in steps), reverse=True
    )


@pytest.mark.parametrize(("share", "as_good_as"), [(-0.1, 0.0), (1.1, 1.0), (float("nan"), 0.0)])
def test_what_is_no_probability_has_a_colour(share, as_good_as):
    assert colour(share) == colour(as_good_as)


def test_what_is_shown():
    leaf, inner = Vertex("a", split=0.0, emission=0.25, confidence=1.0), Vertex(split=0.75, confidence=0.5)
    tree = Vertex(children=(leaf, leaf), split=0.75, confidence=0.5)
    assert (FULL.number(leaf), FULL.number(tree)) == ("25%", "∧75%")
    assert (FULL.sure(leaf), FULL.sure(tree)) == (None, 0.5)
    assert (Look().number(leaf), Look().number(tree), Look().sure(tree)) == ("", "", None)
    assert (FULL.number(Vertex("a")), FULL.sure(Vertex("a"))) == ("", None)
    assert FULL.label(Vertex(children=(leaf,), label="a\n")) == r"a\n"
    assert FULL.label(tree) == FULL.label(inner) == ""


def test_notes():
    tree = Vertex(children=(Vertex("a", emission=0.5), Vertex("b")))
    assert FULL.notes(tree) == ["% at a word: its probability there"]
    assert FULL.notes(Vertex(children=tree.children, split=0.5, confidence=0.5)) == [
        "% in colour: posterior probability of the constituent",
        "∧%: probability of a split",
        "% at a word: its probability there",
    ]
    assert Look().notes(tree) == []


def test_folded():
    tree = Vertex(children=(Vertex("a"), Vertex("a")))
    assert Look(fold=True).shown(tree) == Vertex(children=(Vertex("a"),), label="×2")
    assert Look().shown(tree) is tree
