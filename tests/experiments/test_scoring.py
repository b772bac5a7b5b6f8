import pytest

from tests.evaluation.test_evaluating import gold
from tests.models.build import tiny_model
from torch_ctree.data import Pairs, Task
from torch_ctree.evaluation import evaluate, predict_all
from torch_ctree.experiments.scoring import answered, scored

SOURCES = ["s1 s2 s3", "s4", "s0 s0", "s2", "s3 s1", "s1 s1", "s0 s4 s2", "s3"]


def tiny_task(model) -> Task:
    """A test set of which some answers are right, and another set of which all are."""
    answers = {source: model.answer(source)[0].text for source in SOURCES}
    right = Pairs.of(answers.items())
    mixed = Pairs.of((source, text if n % 2 else "t0 t1 t2 t0") for n, (source, text) in enumerate(answers.items()))
    nothing = Pairs.of([])
    return Task("tiny", {"train": nothing, "validation": nothing, "test": mixed, "gen": right}, "made up", gold)


def score(model, task, with_cells):
    answers = answered(model, task)
    return scored(answers, {name: evaluate(some, task) for name, some in answers.items()}, with_cells)


@pytest.mark.parametrize("decoder", ["ctree", "gru"])
def test_as_evaluation_has_it(decoder):
    model = tiny_model(decoder=decoder)
    task = tiny_task(model)
    metrics, _ = score(model, task, with_cells=False)
    gen = metrics.pop("gen")
    assert gen["exact_match"] == 1.0
    for name, found in (("test", metrics), ("gen", gen)):
        expected = evaluate(predict_all(model, task, name), task)
        for number in ("pairs", "exact_match", "first_word", "token_accuracy"):
            assert found[number] == getattr(expected, number)
        assert found["loss"] == pytest.approx(expected.loss)
        assert {int(n): (s["right"], s["total"], s["accuracy"]) for n, s in found["by_length"].items()} == {
            n: (s.right, s.total, s.accuracy) for n, s in expected.by_length.items()
        }
        assert found["tree_f1"] == (expected.tree_f1 and expected.tree_f1.sentence_f1)
    assert (metrics["tree_f1"] is None) == (decoder == "gru")
    assert "cells" not in metrics
    assert gen["errors"] == {}
    assert sum(metrics["errors"].values()) == round((1 - metrics["exact_match"]) * metrics["pairs"])


def test_the_first_answers_of_each_kind():
    model = tiny_model()
    metrics, examples = score(model, tiny_task(model), with_cells=True)
    test, gen = examples["test"], examples["gen"]
    assert [one["source"] for one in gen["right"]] == SOURCES[:3]
    assert gen["wrong"] == []
    assert [one["source"] for one in test["wrong"]][:2] == SOURCES[0:3:2]
    for one in test["wrong"]:
        assert list(one) == ["source", "target", "output", "tree"]
        assert one["target"] == "t0 t1 t2 t0"
        assert one["output"] == model.answer(one["source"])[0].text
        assert one["tree"].startswith("(")
    assert metrics["cells"]["none"]["once"]["total"] == metrics["pairs"]
    simplest = min(tiny_task(model).test, key=lambda pair: len(pair.target.split()))
    assert test["cells"]["none"]["once"]["source"] == simplest.source
    assert list(test["cells"]["none"]["once"]) == ["source", "target", "output", "tree"]
