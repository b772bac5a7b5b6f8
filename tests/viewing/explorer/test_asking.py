import json
import math
import re
from html import unescape

import pytest

from torch_ctree.viewing.as_json import from_json
from torch_ctree.viewing.explorer.asking import ANSWERS, LAST_SEED, SAMPLES, SHOWS, START, TREES, Question, ask, warm
from torch_ctree.viewing.look import Look

from .fake import Explained, Fake, Parsed

SENTENCE = "jump twice and walk"


def notes(html: str) -> list[str]:
    return [unescape(note) for note in re.findall(r'<p class="note">(.*?)</p>', html)]


def places(html: str) -> list[str]:
    return re.findall(r'data-place="(.*?)"', html)


def test_from_fields_to_a_question():
    question = Question.typed(" jump  twice ", None, SAMPLES, ["probabilities", "folded"], 3.0)
    assert question == Question("jump twice ", "", SAMPLES, Look(probabilities=True, fold=True), 3)
    assert Question.typed(None, None, ANSWERS, [], None) == Question("")
    assert [Question.typed("", "", ANSWERS, [], seed).seed for seed in (-1, 2**31 - 1, 1e30)] == [
        0,
        LAST_SEED,
        LAST_SEED,
    ]


def test_a_target_that_is_not_finished_is_not_judged():
    whole = Question.typed("jump twice ", "JUMP JUMP", ANSWERS, [], 0).so_far(Fake())
    assert "✓ just the target" in ask(Fake(), whole, 1)
    part = Question.typed("jump twice ", "JUMP JUMP WAL", ANSWERS, [], 0).so_far(Fake())
    assert "the target" not in ask(Fake(), part, 1)


def test_as_many_words_as_a_model_says():
    assert notes(ask(Fake(most_words=3), Question(SENTENCE), 1)) == [
        "The source is too long: 4 words; at most 3 are read here."
    ]


def test_answers():
    model = Fake()
    found = ask(model, Question(SENTENCE), 3)
    assert model.asked == [("answers", SENTENCE, 3)]
    assert notes(found) == []
    assert places(found) == [f"{n} of 3, probability {math.exp(-n / 2):.3g}" for n in (1, 2, 3)]
    assert re.findall(r'<p class="text">(.*?)</p>', found) == ["JUMP JUMP WALK"] * 3
    assert [" hidden" in tag for tag in re.findall(r"<article[^>]*>", found)] == [False, True, True]
    assert found.count("<svg") == 3


def test_every_vertex_has_a_panel():
    found = ask(Fake(), Question(SENTENCE), 1)
    drawn = re.findall(r'<g class="vertex[^>]* data-path="([\d.]*)"', found)
    told = re.findall(r'<section class="panel" data-path="([\d.]*)"', found)
    assert sorted(drawn) == sorted(told) == ["", "0", "1", "1.0", "1.1"]
    folded = ask(Fake(), Question("walk thrice", look=Look(fold=True)), 1)
    assert "×3" in folded
    assert re.findall(r'<section class="panel" data-path="([\d.]*)"', folded) == ["", "0"]


def test_files():
    found = ask(Fake(), Question("jump and <b>"), 1)
    files = dict(re.findall(r'<pre data-file="(\w+)"[^>]*>(.*?)</pre>', found, re.DOTALL))
    known = json.loads(unescape(files["json"]))
    assert (known["source"], known["text"]) == ("jump and <b>", "JUMP <B>")
    assert from_json(known["tree"]).leaves == ("JUMP", "<B>")
    assert unescape(files["tex"]).startswith(r"\documentclass")


@pytest.mark.parametrize("source", ["", " "])
def test_nothing(source):
    model = Fake()
    assert ask(model, Question(source), 5) == START
    assert ask(model, Question(source, show=TREES), 5) == START
    assert notes(ask(model, Question("jump", show=TREES), 5)) == ["Type a target too, to see its trees."]
    assert model.asked == []


def test_what_was_expected():
    right, wrong = (ask(Fake(), Question("walk twice", target), 1) for target in ("WALK WALK", "<i>"))
    assert "✓ just the target" in right
    assert "✗ not the target, which is <b>&lt;i&gt;</b>" in wrong
    assert "target" not in ask(Fake(), Question("walk twice"), 1)


def test_samples():
    model = Fake()
    found = ask(model, Question(SENTENCE, show=SAMPLES, seed=1), 5)
    assert model.asked == [("sample", SENTENCE, 1)]
    assert places(found) == ["seed 1, probability 0.368"]
    assert "data-move" not in found  # it is alone


def test_trees_of_a_target():
    model = Fake()
    found = ask(model, Question(SENTENCE, "RUN WALK", TREES), 2)
    assert model.asked == [("parse", SENTENCE, "RUN WALK", 2)]
    assert places(found) == ["1 of 2, probability 0.5 given the target", "2 of 2, probability 0.25 given the target"]
    assert "0.135" in found
    assert "0.250 nats" in found
    assert found.count("<svg") == 3  # and the triangle


@pytest.mark.parametrize("show", SHOWS)
def test_words_are_no_html(show):
    found = ask(Fake(), Question("jump and <b>", "JUMP <B>", show, seed=5), 2)
    assert "<B>" not in found
    assert "<b>" not in found.replace("which is <b>", "")
    assert "&lt;B&gt;" in found


def test_targets_that_no_tree_has():
    found = ask(Fake(), Question(SENTENCE, "RUN " * 9, TREES), 2)
    assert notes(found) == ["No tree of this model can have this target; it may be too long for one."]
    assert "<svg" not in found


def test_an_entropy_that_is_not_known(monkeypatch):
    parsed = Fake().parse("jump", "RUN WALK", 1)
    monkeypatch.setattr(Fake, "parse", lambda *_: Parsed(*{**vars(parsed), "entropy": None}.values()))
    assert "nats" not in ask(Fake(), Question("jump", "RUN WALK", TREES), 1)


def test_no_answer():
    assert notes(ask(Fake(), Question("and"), 5)) == ["No answer has a probability above zero."]


def test_a_model_without_trees():
    found = ask(Fake(has_trees=False), Question("walk twice"), 2)
    assert len(places(found)) == 2
    assert "<svg" not in found
    assert "data-save" not in found


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("the decoder 'gru'\nhas no trees"), "the decoder 'gru' has no trees"),
        (RuntimeError("out of memory"), "out of memory"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_a_model_cannot_do_is_one_line(monkeypatch, error, said):
    def fail(*_):
        raise error

    monkeypatch.setattr(Fake, "answers", fail)
    assert notes(ask(Fake(), Question("jump"), 1)) == [said]


def test_unknown_words_never_reach_a_model():
    model = Fake()
    assert notes(ask(model, Question("jump <script>"), 1))[0].startswith("Unknown in a source: '<script>'.")
    assert "<script" not in ask(model, Question("jump <script>"), 1)
    assert notes(ask(model, Question("jump", "<script>", TREES), 1))[0].startswith("Unknown in a target")
    assert model.asked == []


def test_while_one_types():
    model = Fake()
    question = Question("jump twi", "JUMP JU").so_far(model)
    assert (question.source, question.target, question.left_out) == ("jump ", "JUMP ", "“twi” and “JU”")
    found = ask(model, question, 1)
    assert model.asked == [("answers", "jump", 1)]
    assert places(found) == ["probability 0.607, without “twi” and “JU”, not yet a word"]
    assert Question("jump", "").so_far(model) == Question("jump", "")
    assert ask(model, Question("ju").so_far(model), 1) == START


def test_warming_up_asks_everything():
    model = Fake()
    warm(model, 4)
    assert [kind for kind, *_ in model.asked] == ["answers", "sample", "parse"]
    assert len(SHOWS) == 3


def test_answers_are_the_same_each_time():
    assert ask(Fake(), Question(SENTENCE), 3) == ask(Fake(), Question(SENTENCE), 3)


def test_an_answer_without_words(monkeypatch):
    monkeypatch.setattr(Fake, "answers", lambda *_: [Explained(("jump",), "", -1.0, None)])
    assert "(nothing)" in ask(Fake(), Question("jump"), 1)
