import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from torch_ctree.data import DataError
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, at, k_best, still, svg, visible

from .trees import DEEP, MANY, balanced, chain, known, trees

FULL = Look(probabilities=True, confidence=True)
NAME = "{http://www.w3.org/2000/svg}"


def groups(text: str) -> dict[str, ElementTree.Element]:
    """The vertices of a drawing, by their paths."""
    found = [group for group in ElementTree.fromstring(text).iter(f"{NAME}g") if "data-path" in group.attrib]
    return {group.attrib["data-path"]: group for group in found}


def said(group: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in group.iter(f"{NAME}text")]


@pytest.mark.parametrize("look", [Look(), FULL, Look(sideways=True)])
@settings(max_examples=15)
@given(tree=trees)
def test_one_group_a_vertex_and_every_word_as_it_is(look, tree):
    drawn = groups(svg(tree, look))
    vertices = list(tree.walk())
    assert len(drawn) == len(vertices)
    for (path, group), vertex in zip(drawn.items(), vertices, strict=True):
        assert at(tree, path) is vertex
        assert group.attrib["class"] == "vertex"
        assert (group.attrib["tabindex"], group.attrib["role"]) == ("0", "button")
        assert group.attrib["aria-label"].startswith("constituent: " if vertex.children else "word: ")
        if not vertex.children:
            assert said(group)[0] == visible(vertex.word or "")


def test_what_is_known_is_shown_and_read_out():
    tree = known(balanced(["jump", "left"]))
    drawn = groups(svg(tree, FULL))
    assert {path: said(group) for path, group in drawn.items()} == {
        "": ["50%", "∧75%"],
        "0": ["jump", "25%"],
        "1": ["left", "25%"],
    }
    labels = [group.attrib["aria-label"] for group in drawn.values()]
    assert labels == [
        "constituent: jump left, posterior probability 50%, probability of a split 75%",
        "word: jump, probability of the word 25%",
        "word: left, probability of the word 25%",
    ]
    assert {path: said(group) for path, group in groups(svg(tree)).items()} == {"": [], "0": ["jump"], "1": ["left"]}
    long = groups(svg(balanced(MANY)))[""].attrib["aria-label"]
    assert long == "constituent: word0 word1 word2 word3 word4 word5 …, 200 words"


def test_one_vertex_is_chosen():
    tree = balanced(["a", "b"])
    assert [group.attrib["class"] for group in groups(svg(tree, chosen="1")).values()] == [
        "vertex",
        "vertex",
        "vertex chosen",
    ]
    assert groups(svg(tree, chosen=""))[""].attrib["class"] == "vertex chosen"


def test_paths_are_those_of_what_is_drawn():
    tree = chain(["a"] * 8)
    assert list(groups(svg(tree, Look(fold=True)))) == ["", "0"]


def test_several_can_be_in_one_page():
    """No names that must be there once, nothing that runs or is fetched, and no colour of its own for text."""
    text = svg(known(balanced(["a", "b"])), FULL, title='<script>"')
    assert " id=" not in text
    assert "url(" not in text
    assert "<script" not in text
    assert text.count("<style>") == 1
    assert re.findall("https?://[^\"'< ]*", text) == ["http://www.w3.org/2000/svg"]
    root = ElementTree.fromstring(text)
    assert root.attrib["fill"] == "currentColor"
    assert root.find(f"{NAME}title").text == '<script>"'  # type: ignore[union-attr]
    assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]


def test_the_title_says_the_words():
    root = ElementTree.fromstring(svg(balanced(["jump", "<&>"])))
    assert root.find(f"{NAME}title").text == "Tree of: jump <&>"  # type: ignore[union-attr]


@pytest.mark.parametrize("tree", [balanced(DEEP), chain(DEEP)], ids=["balanced", "chain"])
def test_trees_without_end(tree):
    assert len(groups(svg(tree, FULL))) == 2 * len(DEEP) - 1


def test_side_by_side():
    trees = [(balanced(["a", "b", "c"]), 0.75), (chain(["a", "b", "c"]), 0.25)]
    root = ElementTree.fromstring(k_best(trees))
    found = [group for group in root.iter(f"{NAME}g") if group.attrib.get("class") == "tree"]
    assert [group.attrib["data-tree"] for group in found] == ["0", "1"]
    assert [said(group) for group in found] == [["tree 1: 75%", "a", "b", "c"], ["tree 2: 25%", "a", "b", "c"]]
    first, second = (group.attrib["transform"] for group in found)
    assert first == "translate(0.0 0.0)"
    assert second.endswith(" 0.0)")


def test_side_by_side_in_rows():
    root = ElementTree.fromstring(k_best([(balanced(["a"] * 8), 0.1)] * 10))
    places = [group.attrib["transform"] for group in root.iter(f"{NAME}g") if group.attrib.get("class") == "tree"]
    assert len(set(places)) == 10
    assert len({place.split()[1] for place in places}) > 1
    assert float(root.attrib["width"]) <= 1000


def test_what_numbers_mean_is_said_once():
    text = k_best([(known(balanced(["a", "b"])), 0.5)] * 3, FULL)
    assert text.count("probability of a split<") == 1
    assert len(groups(text)) == 3  # the paths are the same in each


def test_side_by_side_with_nothing():
    with pytest.raises(DataError, match="trees: got none"):
        k_best([])


def test_a_word_alone():
    assert list(groups(svg("walk"))) == [""]
    assert said(groups(svg(Vertex("walk", emission=0.5), FULL))[""]) == ["walk", "50%"]


def test_still():
    """Nothing to click or to tab to, and all that is to be seen."""
    drawing = svg(known(balanced(["the", "old", "cat", "<b>"])), FULL, chosen="0")
    plain = still(drawing)
    for mark in ("tabindex", "data-path", 'role="button"', 'class="hit"', 'class="vertex'):
        assert mark in drawing
        assert mark not in plain
    assert said(ElementTree.fromstring(plain)) == said(ElementTree.fromstring(drawing))
