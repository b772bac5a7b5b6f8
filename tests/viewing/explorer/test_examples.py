import re
from dataclasses import replace

from torch_ctree.viewing.explorer.examples import examples, is_right, kinds, spread

from .fake import Fake, prediction

SOURCES = ["jump", "walk twice", "run thrice and look", "jump twice and walk thrice and run"]


def shown(html: str) -> list[tuple[str, list[str]]]:
    rows = re.findall(r'<div class="examples">(.*?)</div>', html)
    return [
        (re.sub("<.*?>", "", row.split("</h4>")[0]), re.findall(r"<button[^>]*>(.*?)</button>", row)) for row in rows
    ]


def test_right_is_word_for_word():
    assert is_right(prediction("walk twice"))
    assert is_right(prediction("walk twice", "WALK  WALK"))
    assert not is_right(prediction("walk twice", "WALK"))


def test_right_and_wrong_ones():
    tested = [*map(prediction, SOURCES[:3]), prediction(SOURCES[3], "JUMP")]
    assert shown(examples([Fake(tested=tested)])) == [("Right 3", SOURCES[:3]), ("Wrong 1", SOURCES[3:])]
    assert shown(examples([Fake(tested=tested[:3])])) == [("Right 3", SOURCES[:3]), ("Wrong 0", [])]


def test_short_ones_and_long_ones():
    tested = [replace(prediction(" ".join(["jump"] * n)), row=n) for n in range(1, 101)]
    assert [one.row for one in spread(tested)] == [1, 34, 67, 100]
    assert [one.row for one in spread(tested[:2])] == [1, 2]
    assert [one.row for one in spread(tested, 1)] == [1]
    assert spread([]) == []


def test_of_two_models():
    first = [prediction(SOURCES[0]), prediction(SOURCES[1]), prediction(SOURCES[2], "RUN"), prediction(SOURCES[3])]
    second = [prediction(SOURCES[0]), prediction(SOURCES[1], "RUN"), prediction(SOURCES[2])]
    found = [(kind, [one.source for one in some]) for kind, some in kinds({"a": first, "b": second})]
    assert found == [
        ("Right with both", [SOURCES[0]]),
        ("Right only with a", [SOURCES[1]]),
        ("Right only with b", [SOURCES[2]]),
    ]
    assert [kind for kind, _ in kinds({"a": [prediction("jump", "RUN")], "b": [prediction("jump", "RUN")]})] == [
        "Wrong with both"
    ]


def test_none():
    assert "ctree evaluate" in examples([Fake()])
    assert [kind for kind, _ in shown(examples([Fake("a", tested=[prediction("jump")]), Fake("b")]))] == [
        "Right with a 1",
        "Wrong with a 0",
    ]


def test_models_that_were_tested_on_other_sentences():
    models = [Fake("a", tested=[prediction("jump")]), Fake("b", tested=[prediction("walk")])]
    assert "not tested on the same sentences" in examples(models)


def test_a_click_gives_the_very_text():
    strange = "jump\u00a0\u200f twice"
    found = examples([Fake(tested=[replace(prediction("jump"), source=strange, target=strange)])])
    assert f'data-source="{strange}" data-target="{strange}"' in found


def test_what_is_in_them_is_no_html():
    found = examples([Fake(tested=[prediction('<b> "and" ' + "jump " * 30)])])
    assert "<b>" not in found
    assert 'data-source="&lt;b&gt; &quot;and&quot; jump' in found
    assert shown(found)[0][1][0].endswith("…")
