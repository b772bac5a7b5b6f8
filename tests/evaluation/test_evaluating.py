import math
from dataclasses import replace

import pytest
import torch
from nltk import Tree

from torch_ctree.data import DataError, Pairs, Task, Vocabulary
from torch_ctree.data.recasing import Recaser, Written
from torch_ctree.data.task import Gold
from torch_ctree.evaluation import (
    PhraseShare,
    Prediction,
    Share,
    bleu,
    evaluate,
    phrase_share,
    predict,
    read_predictions,
    write_predictions,
)
from torch_ctree.evaluation.evaluating import from_brackets, in_brackets

from ..models.build import DECODERS, scores_of_all, tiny_model

EXAMPLES = [("s1 s2 s3", "t0 t1 t2"), ("s4", "t1"), ("s0 s0", "t2 t2 t2 t2"), ("s2", "t0 t0"), ("s3 s1", "t2 t1 t0")]


def gold(pair) -> Gold:
    """Trees that branch to the right."""
    words = pair.target.split()
    tree = words.pop()
    while words:
        tree = Tree("·", [words.pop(), tree])
    return Gold(Tree("·", ["-"]), tree if isinstance(tree, Tree) else Tree("·", [tree]))


def task(examples=EXAMPLES, gold=gold) -> Task:
    nothing = Pairs.of([])
    return Task("tiny", {"train": nothing, "validation": nothing, "test": Pairs.of(examples)}, "made up", gold)


def predicted(model, task, **options) -> list[Prediction]:
    found = [one for some in predict(model, task, "test", **options) for one in some]
    return sorted(found, key=lambda one: one.row)


def approximately(predictions: list[Prediction]) -> list[Prediction]:
    """For comparison: sums of other orders differ in the last digits."""
    return [
        replace(p, log_prob=round(p.log_prob, 8), target_log_prob=round(p.target_log_prob or 0, 8)) for p in predictions
    ]


# --- predict ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("depth", [None, 3])
def test_each_as_if_alone(decoder, depth):
    model = tiny_model(decoder=decoder)
    for n, found in enumerate(predicted(model, task(), batch_size=2, depth=depth)):
        source, target = EXAMPLES[n]
        (answer,) = model.answer(source, depth=depth)
        assert (found.set, found.row, found.source, found.target) == ("test", n, source, target)
        assert (found.output, found.tree) == (answer.text, in_brackets(answer.tree))
        assert found.log_prob == pytest.approx(answer.log_prob)
        with torch.no_grad():
            assert found.target_log_prob == pytest.approx(model.score(model.batch([source], [target]), depth).item())
        if decoder == "ctree":
            tree = model.parse(source, target, depth).argmax().trees(model.target.__getitem__)[0]
            assert found.target_tree == in_brackets(tree)
        else:
            assert found.tree is found.target_tree is None


def test_against_every_sentence():
    """The probabilities of all targets sum to one, and the answer's is one of them."""
    model = tiny_model()
    (found,) = predicted(model, task([("s1 s2", "t1 t0")]))
    scores = scores_of_all(model, [1, 2], 4)
    assert sum(map(math.exp, scores.values())) == pytest.approx(1)
    assert found.target_log_prob == pytest.approx(scores[1, 0])
    assert found.log_prob <= scores[tuple(model.target.encode(found.output))] + 1e-9


@pytest.mark.parametrize("size", [1, 2, 100])
def test_batches_do_not_matter(size):
    model = tiny_model()
    expected = approximately(predicted(model, task(), batch_size=5))
    assert approximately(predicted(model, task(), batch_size=size)) == expected


def test_no_gold_trees_no_parsing():
    assert [p.target_tree for p in predicted(tiny_model(), task(gold=None))] == [None] * 5


@pytest.mark.parametrize(
    ("languages", "is_parsed"), [(("en", "de"), True), (("de", "en"), True), (("en", "fr"), False)]
)
def test_targets_of_translation_are_parsed(languages, is_parsed):
    model = tiny_model()
    found = predicted(model, replace(task(gold=None), languages=languages))
    if is_parsed:
        assert found == predicted(model, task())
    else:
        assert [p.target_tree for p in found] == [None] * 5


@pytest.mark.parametrize("decoder", ["ctree", "gru", "lanmt"])
def test_a_target_without_room(decoder):
    """Five words do not fit at depth 2; the others are as they were."""
    model = tiny_model(decoder=decoder)
    found = predicted(model, task([*EXAMPLES, ("s1", "t0 t1 t2 t1 t0")]))
    assert found[-1].target_log_prob == -math.inf
    assert found[-1].target_tree is None
    assert found[-1].output == model.answer("s1")[0].text
    assert approximately(found[:-1]) == approximately(predicted(model, task()))


def test_no_gradients_are_kept():
    model = tiny_model()
    predicted(model, task())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_words_that_the_model_does_not_have():
    with pytest.raises(DataError, match=r"^test set, target 2: 't1 t9': 't9' is not in the vocabulary of 3 words"):
        predicted(tiny_model(), task([("s1", "t1"), ("s1", "t1 t9")]))


# --- evaluate ---------------------------------------------------------------------------------------------------------

RIGHT, LEFT = "(· t0 (· t1 t2))", "(· (· t0 t1) t2)"


def answers() -> list[Prediction]:
    """Two of four right; the trees of two of them are there, one of them gold."""
    return [
        Prediction("test", 0, "s1", "t0 t1 t2", "t0 t1 t2", -1.0, None, -3.0, RIGHT),
        Prediction("test", 1, "s2", "t0 t1 t2", "t0 t2 t2", -1.0, None, -6.0, LEFT),
        Prediction("test", 2, "s3", "t1 t1", "t1 t1", -1.0, None, -1.0, "(· t1 t1)"),
        Prediction("test", 3, "s4", "t2", "", -1.0, None, -8.0, None),
    ]


def test_by_hand():
    found = evaluate(answers(), task())
    assert found.pairs == 4
    assert found.exact_match == 1 / 2
    assert found.first_word == 3 / 4
    assert found.token_accuracy == (3 + 2 + 2 + 0) / (3 + 3 + 2 + 1)
    assert found.loss == (3 / 3 + 6 / 3 + 1 / 2 + 8 / 1) / 4
    assert found.by_length == {1: Share(0, 1), 2: Share(1, 1), 3: Share(1, 2)}
    assert found.bleu is None
    assert found.tree_f1 is not None
    assert (found.tree_f1.sentence_f1, found.tree_f1.sentences) == (1 / 2, 2)
    assert found.baselines == {"right-branching": 1, "left-branching": 0, "balanced": 0}


def test_text_has_bleu_and_no_trees():
    found = evaluate(answers(), task(gold=None))
    assert found.tree_f1 is found.baselines is None
    assert found.bleu is not None
    assert "tok:none" in found.bleu.signature
    raw = evaluate(answers(), task(gold=None), tokenised=False).bleu
    assert raw is not None
    assert "tok:13a" in raw.signature


def test_text_as_it_was_written():
    plain, tokenised = ["The Cat sleeps.", "A dog sees the Cat!"], ["the cat sleeps .", "a dog sees the cat !"]
    references = ["The Cat sleeps now.", "A dog sees the Cat!", "not asked for"]
    written = Written({"test": references}, Recaser(plain, tokenised), "en")
    some = [
        Prediction("test", 1, "s", "a dog sees the cat !", "the dog sees the cat !", -1.0, None, -1.0, None),
        Prediction("test", 0, "s", "the cat sleeps now .", "the cat sleeps now .", -1.0, None, -1.0, None),
    ]
    asked = []
    known = replace(task(gold=None), written=lambda: asked.append(1) or written)
    found = evaluate(some, known).bleu_written
    assert found is not None
    outputs = ["The dog sees the Cat!", "The Cat sleeps now."]
    assert found == bleu(outputs, [references[1], references[0]], tokenised=False)
    assert evaluate(some[:1], known).to_dict()["bleu_written"]["signature"] == found.signature
    assert len(asked) == 1  # learned once for all sets
    assert evaluate(some, task(gold=None)).bleu_written is None


@pytest.mark.parametrize("kept", [slice(2, 4), slice(3, 4)])
def test_no_tree_to_compare(kept):
    found = evaluate(answers()[kept], task())
    assert found.tree_f1 is found.baselines is None


def test_an_impossible_target_costs_everything(tmp_path):
    impossible = replace(answers()[0], target_log_prob=-math.inf, target_tree=None)
    some = [*answers(), impossible]
    assert evaluate(some, task()).loss == math.inf
    assert evaluate(some, task()).tree_f1 == evaluate(answers(), task()).tree_f1
    write_predictions(tmp_path / "p.jsonl", some)
    assert evaluate(read_predictions(tmp_path / "p.jsonl"), task()).loss == math.inf  # null, in the file


NOUN, VERB = "(· (· ein mann) schläft)", "(· ein (· mann schläft))"


def translations(*trees: str | None) -> list[Prediction]:
    return [Prediction("test", n, "a", "ein mann schläft", "", -1.0, tree, -1.0, VERB) for n, tree in enumerate(trees)]


def test_noun_phrases_by_hand():
    german = replace(task(gold=None), languages=("en", "de"))
    found = evaluate(translations(NOUN, VERB, NOUN, "(· ein (· mann -LRB-))", None), german)
    simple = {"right-branching": 0, "left-branching": 1, "balanced": 1, "random": 1 / 2}
    assert found.phrases == PhraseShare(1 / 2, 4, 4, simple)
    assert found.target_phrases == PhraseShare(0, 5, 5, simple)
    assert found.to_dict()["phrases"] == {"share": 1 / 2, "phrases": 4, "sentences": 4, "baselines": simple}


def test_no_noun_phrases():
    """Without trees; in another language; where it is not known which."""
    for languages, tree in ((("en", "de"), None), (("en", "fr"), NOUN), (None, NOUN)):
        found = evaluate(translations(tree), replace(task(gold=None), languages=languages))
        assert found.phrases is None
        assert (found.target_phrases is None) == (languages != ("en", "de"))


def test_the_share_of_a_models_own_trees():
    """Whose words are no German, but for the article that they are made to be."""
    model = tiny_model(depth=3)
    model.target = Vocabulary(["ein", "hund", "der"])
    pairs = [("s1 s2", "ein hund der"), ("s3", "hund der hund ein hund")]
    german = replace(task(pairs, gold=None), languages=("en", "de"))
    found = predicted(model, german)
    result = evaluate(found, german)
    assert result.target_phrases == phrase_share([from_brackets(str(one.target_tree)) for one in found], "de")
    assert result.target_phrases is not None
    assert result.target_phrases.phrases == 3


def test_as_plain_values():
    plain = evaluate(answers(), task(gold=None)).to_dict()
    assert plain["by_length"][3] == {"right": 1, "total": 2}
    assert set(plain["bleu"]) == {"score", "signature"}
    assert plain["tree_f1"] is None
    trees = evaluate(answers(), task()).to_dict()
    assert trees["tree_f1"]["sentences"] == 2
    assert trees["bleu"] is None


def test_no_predictions():
    with pytest.raises(DataError, match=r"^predictions: got none"):
        evaluate([], task())


# --- brackets ---------------------------------------------------------------------------------------------------------


def test_trees_on_one_line_can_be_read_back():
    tree = Tree("·", [Tree("·", ["word" * 10, "(a)"]), Tree("·", ["word" * 10, ")"])])
    line = in_brackets(tree)
    assert line is not None
    assert "\n" not in line
    read = Tree.fromstring(line)
    assert [leaf.replace("-LRB-", "(").replace("-RRB-", ")") for leaf in read.leaves()] == tree.leaves()
    assert read.treepositions() == tree.treepositions()
    assert from_brackets(line) == tree
    assert tree.leaves()[1] == "(a)"  # its own words stay
    assert in_brackets(None) is None
