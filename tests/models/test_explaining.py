"""What is said of each vertex adds up to what the model says of the whole."""

import math

import pytest
import torch

from torch_ctree.models import DECODERS, Seq2Seq
from torch_ctree.models.decoders import CTree, TreeDecoder
from torch_ctree.models.explaining import explain, explain_samples, explain_target
from torch_ctree.trees.vertex import Vertex

from .build import EVERYTHING, GRAMMAR, tiny_model

SOURCE = "s3 s1 s2"
WITH_TREES = {name: settings for name, settings in EVERYTHING.items() if settings["decoder"] in ("ctree", "grammar")}
CTREES = {name: settings for name, settings in WITH_TREES.items() if settings["decoder"] == "ctree"}
SEQUENTIAL = {name: EVERYTHING[name] for name in ("om+gru+mlp", "om+production+lexical-attention")}


def inner(tree: Vertex) -> list[Vertex]:
    return [vertex for vertex in tree.walk() if vertex.children]


def said(tree: Vertex) -> list[Vertex]:
    return [vertex for vertex in tree.walk() if not vertex.children]


def joint(tree: Vertex) -> float:
    """p(target, tree | source) by its factors, one vertex after another."""
    splits = [vertex.split for vertex in inner(tree)] + [1 - (vertex.split or 0) for vertex in said(tree)]
    return math.prod(p or 0 for p in [*splits, *(vertex.emission for vertex in said(tree))])


@pytest.mark.parametrize("settings", CTREES.values(), ids=CTREES)
def test_the_factors_of_the_vertices_make_the_probability_of_the_answer(settings):
    model = tiny_model(**settings)
    plain, found = model.answer(SOURCE, k=4), explain(model, SOURCE, k=4)
    assert [(one.text, one.tree) for one in plain] == [(one.text, one.tree.to_nltk()) for one in found if one.tree]
    for one, answer in zip(found, plain, strict=True):
        assert one.source == ("s3", "s1", "s2")
        assert one.log_prob == pytest.approx(answer.log_prob)
        assert one.tree
        assert math.log(joint(one.tree)) == pytest.approx(one.log_prob)


def test_a_grammars_answers_have_the_probability_of_all_their_trees():
    model = tiny_model(**GRAMMAR, depth=3)
    for one in [*explain(model, SOURCE), *explain(model, SOURCE, k=3), *explain_samples(model, SOURCE, 3)]:
        assert one.log_prob == pytest.approx(explain_target(model, SOURCE, one.text).log_prob)


@pytest.mark.parametrize("settings", [GRAMMAR, CTREES["om+ctree+mlp"], SEQUENTIAL["om+gru+mlp"]])
@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_counts_that_are_none(settings, count):
    model = tiny_model(**settings)
    with pytest.raises(ValueError, match="k: got"):
        explain(model, SOURCE, k=count)
    with pytest.raises(ValueError, match="count: got"):
        explain_samples(model, SOURCE, count)
    with pytest.raises(ValueError, match="k: got"):
        explain_target(model, SOURCE, "t0", k=count)


@pytest.mark.parametrize("settings", WITH_TREES.values(), ids=WITH_TREES)
def test_what_sums_to_one(settings):
    model = tiny_model(**settings)
    for one in [*explain(model, SOURCE, k=3), *explain_samples(model, SOURCE, 3)]:
        assert one.tree
        assert " ".join(one.tree.leaves) == one.text
        for vertex in one.tree.walk():
            assert sum(p for _, p in vertex.words) == pytest.approx(1)  # all three words are shown
            assert [p for _, p in vertex.words] == sorted((p for _, p in vertex.words), reverse=True)
            assert 0 <= (vertex.split or 0) <= 1
            for looks in (vertex.attention, vertex.found):
                assert len(looks) in (0, 3)
                assert not looks or sum(looks) == pytest.approx(1)
        for vertex in said(one.tree):
            assert vertex.emission == pytest.approx(dict(vertex.words)[vertex.word or ""])


@pytest.mark.parametrize("settings", WITH_TREES.values(), ids=WITH_TREES)
def test_confidence_is_that_of_the_span(settings):
    model = tiny_model(**settings)
    parsed = explain_target(model, SOURCE, "t2 t1 t0", k=2)
    posterior = model.parse(SOURCE, "t2 t1 t0")
    torch.testing.assert_close(torch.tensor(parsed.spans).double(), posterior.span_marginals()[0])
    assert parsed.log_prob == pytest.approx(posterior.log_evidence()[0].item())
    for tree, _ in parsed.trees:
        assert tree.confidence == pytest.approx(1)
        place = 0
        for vertex in tree.walk():
            first, last = place, place + len(vertex.leaves) - 1
            assert vertex.confidence == pytest.approx(parsed.spans[first][last])
            place += not vertex.children
    if settings["decoder"] == "ctree":  # of three words there are two trees
        assert sum(share for _, share in parsed.trees) == pytest.approx(1)
        assert parsed.entropy == pytest.approx(-sum(p * math.log(p) for _, p in parsed.trees))
        for tree, share in parsed.trees:
            assert math.log(joint(tree)) == pytest.approx(math.log(share) + parsed.log_prob)
    else:
        assert len(parsed.trees) == 1
        assert parsed.entropy is None


def test_attention_is_that_of_the_model():
    model = tiny_model(encoder="ordered-memory", decoder="ctree", output="lexical-attention")
    (found,) = explain(model, SOURCE)
    decoder = model.decoder
    assert isinstance(decoder, CTree)
    encoding = model.encode(model.batch([SOURCE]))
    tree, nodes = decoder.expand(encoding, 2), decoder.attention.over(encoding, "nodes")
    weights = decoder.attention.weights(tree.states, nodes)[0].unflatten(-1, (3, 3)).sum(-1)
    assert found.tree
    for vertex in found.tree.walk():
        assert vertex.number is not None
        looks = vertex.attention
        assert bool(looks) == (0 < vertex.number < 3)  # the root sees the source's root, the deepest no context
        assert not looks or list(looks) == pytest.approx(weights[vertex.number].tolist())
    with_contexts = tiny_model(encoder="ordered-memory", decoder="ctree", output="mlp")
    trees = [one.tree for one in explain(with_contexts, SOURCE, 5) if one.tree]
    assert all(vertex.attention for tree in trees for vertex in said(tree) if vertex.number)
    without = tiny_model(encoder="birnn", decoder="ctree", output="mlp", context="root")
    trees = [one.tree for one in explain(without, SOURCE, 5) if one.tree]
    assert not any(vertex.attention for tree in trees for vertex in tree.walk())


def test_phrases_of_a_grammar():
    """A child's lies in its parent's, whose phrase at the root is the whole source."""
    model = tiny_model(**GRAMMAR, depth=3)
    for one in explain_samples(model, SOURCE, 10):
        assert one.tree
        assert one.tree.phrase == (0, 3)
        for vertex in one.tree.walk():
            first, end = vertex.phrase or (0, 0)
            assert 0 <= first < end <= 3
            assert vertex.operator in range(model.config.operators)
            assert all(look == 0 for n, look in enumerate(vertex.found) if not 0 <= n < 3)


def test_a_grammar_of_one_word_looks_at_it_alone():
    model = tiny_model(**GRAMMAR)
    (found,) = explain(model, "s1")
    assert found.tree
    for vertex in found.tree.walk():
        assert vertex.phrase == (0, 1)
        assert vertex.found == pytest.approx((1.0,))


@pytest.mark.parametrize("settings", SEQUENTIAL.values(), ids=SEQUENTIAL)
def test_answers_without_trees(settings):
    model = tiny_model(**settings)
    found = explain(model, SOURCE, k=2)
    assert [(one.text, one.log_prob) for one in found] == [(one.text, one.log_prob) for one in model.answer(SOURCE, 2)]
    assert all(one.tree is None and one.spans is None for one in found)


def test_samples_depend_on_their_seed_alone():
    model, before = tiny_model(), torch.get_rng_state()
    found = explain_samples(model, SOURCE, 20, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert explain_samples(model, SOURCE, 20, seed=1) == found
    assert explain_samples(model, SOURCE, 20, seed=2) != found


def test_a_target_that_no_tree_can_have():
    parsed = explain_target(tiny_model(), SOURCE, "t0 t1 t2 t0 t1")  # of depth 2
    assert parsed.log_prob == -math.inf
    assert parsed.trees == ()
    assert {p for row in parsed.spans for p in row} == {0}


def test_a_target_that_no_grammar_can_have():
    """A phrase of one word stays as it is once or twice, and so becomes a few words at most."""
    parsed = explain_target(tiny_model(**GRAMMAR, stays=1), "s1", "t0 t1 t0")
    assert (parsed.trees, parsed.log_prob) == ((), -math.inf)


def test_a_decoder_of_ones_own_says_what_it_wants(monkeypatch):
    class Silent(CTree):
        describe = TreeDecoder.describe

    monkeypatch.setitem(DECODERS, "silent", Silent)
    (found,) = explain(tiny_model(decoder="silent"), SOURCE)
    assert isinstance(found.tree, Vertex)
    assert found.tree.confidence == pytest.approx(1)
    assert found.tree.split is None


def test_trees_may_be_deeper_than_in_training():
    model: Seq2Seq = tiny_model()
    parsed = explain_target(model, SOURCE, "t0 t1 t2 t0 t1", depth=3)
    assert parsed.trees
    assert all(joint(tree) == pytest.approx(share * math.exp(parsed.log_prob)) for tree, share in parsed.trees)
