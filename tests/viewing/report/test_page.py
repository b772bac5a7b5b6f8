import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from torch_ctree.viewing.look import Look
from torch_ctree.viewing.report.page import (
    Html,
    Section,
    abreast,
    bar,
    code,
    drawing,
    facts,
    figure,
    folded,
    joined,
    lines,
    listed,
    missing,
    page,
    paragraph,
    table,
    tag,
)

from .markup import Page

HOSTILE = "<script>alert('1')</script> & \"quoted\" \u202eright to left\u202c \0\x1b[31m </style> --> ]]> " + "w" * 300


def test_text_is_escaped_once_and_html_is_not():
    assert tag("b", "R&D", Html("<i>x</i>"), title='"<') == '<b title="&quot;&lt;">R&amp;D<i>x</i></b>'
    assert tag("b", tag("i", "<")) == "<b><i>&lt;</i></b>"
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert tag("td", aria_label="x", class_=None) == '<td aria-label="x"></td>'
    assert tag("b", Html("<i>") + "&") == "<b>&lt;i&gt;&amp;</b>"  # of both together it is not known


def test_what_cannot_be_seen_is_spelled_out():
    assert joined("a\0\u202e\x1b") == "a\\x00\\u202e\\x1b"
    assert joined("می\u200cخواهم 熊 é 👩\u200d💻") == "می\u200cخواهم 熊 é 👩\u200d💻"


@given(st.text(max_size=30))
def test_any_text_is_text(text):
    made = Page(page(text, [paragraph(text)], [Section(text, [code(text), table([[text, text], [text, text]])])], text))
    assert made.count("code") == 1
    assert "script" not in {name for name, _ in made.elements}


def test_a_page_of_everything_that_is_hostile():
    parts = [
        paragraph(HOSTILE),
        missing(HOSTILE),
        code(HOSTILE),
        facts([(HOSTILE, HOSTILE, HOSTILE), ("a", "1", "")]),
        table([[HOSTILE, HOSTILE], [HOSTILE, f"{HOSTILE}\n{HOSTILE}"]], caption=HOSTILE),
        folded(HOSTILE, paragraph(HOSTILE)),
        listed([HOSTILE, HOSTILE]),
        figure(Html("<svg></svg>"), HOSTILE, "tree", HOSTILE),
        abreast(bar(0.5), bar(1), are_even=True),
    ]
    made = Page(page(HOSTILE, [paragraph(HOSTILE)], [Section(HOSTILE, parts), Section(HOSTILE, parts)], HOSTILE))
    assert made.count("section") == 2
    assert "<script>alert('1')</script> &" in made.said
    assert "\u202e" not in made.said
    assert "\0" not in made.said


def test_parts_are_below_what_they_are_of():
    sections = [Section("Whole", []), Section("Part", [], is_part=True), Section("Whole", [])]
    made = Page(page("t", [], sections, ""))
    assert [name for name, _ in made.elements if name in ("h1", "h2", "h3")] == ["h1", "h2", "h3", "h2"]
    assert [given.get("class") for name, given in made.elements if name == "li"] == ["whole", None, "whole"]


def test_tables():
    made = table([["model", "value", "why"], ["a", "1\n2", "x"], ["b", tag("i", "3"), ""]], last=1)
    assert '<th scope="row">a</th><td class="number">1<br>2</td><td class="text">x</td>' in made
    assert '<td class="number"><i>3</i></td>' in made
    assert table([["model", "value"]]) == ""
    assert lines("a&\nb") == "a&amp;<br>b"
    with pytest.raises(ValueError, match="zip"):
        table([["a", "b"], ["1"]])


def test_nothing_is_left_for_what_is_not_there():
    assert abreast(Html(), Html("<p></p>")) == '<div class="abreast"><div><p></p></div></div>'
    assert "<small>" not in facts([("a", "1", "")])
    assert "figcaption" not in figure(Html("<svg></svg>"))
    assert "<details open" in folded("x", is_open=True)


def test_trees_are_only_to_be_looked_at():
    made = drawing(Tree.fromstring("(S (NP <b> &) c)"), Look(), "a <tree>")
    found = Page(made)
    assert found.elements[0][1]["role"] == "img"
    assert "a <tree>" in found.said
    for _, attributes in found.elements:
        assert not {"tabindex", "data-path"} & attributes.keys()
        assert attributes.get("role") != "button"
    assert "<b>" in found.said
    assert found.count("b") == 0
