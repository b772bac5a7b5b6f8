import math
from typing import Any

import pytest
import torch

from torch_ctree.models import DECODERS, Decoded, ModelConfig, ModelError, Seq2Seq, choosing, output
from torch_ctree.models.configuration import Search
from torch_ctree.models.decoders import CTree, TreeDecoder
from torch_ctree.models.explaining import explain
from torch_ctree.trees import LatentGrammar, LatentTree, TokenLogits, naive

from .build import (
    EVERYTHING,
    GRAMMAR,
    SEQUENTIAL,
    make_batch,
    scores_of_all,
    some_batch,
    some_pairs,
    tiny_model,
    unpadded,
    words,
)
from .test_similarity import similar

ALL = 64  # derivations of up to four words of two: there are 38
OTHERS: tuple[Search, ...] = ("sentence", "risk")
SOURCE = [3, 1, 2]
TREES = {name: settings for name, settings in EVERYTHING.items() if settings["decoder"] == "ctree"}
every_tree = pytest.mark.parametrize("settings", TREES.values(), ids=TREES)
every_search = pytest.mark.parametrize("search", OTHERS)


def distribution(model: Seq2Seq, source=SOURCE, depth=None) -> LatentTree:
    with torch.no_grad():
        dist = model.distribution(make_batch([source], [[0]]), depth)
    assert isinstance(dist, LatentTree)
    return dist


def scores(model, source=SOURCE, depth=None):
    """(V, K): log m(v) + log p(x | v)."""
    dist = distribution(model, source, depth)
    assert isinstance(dist.emission, TokenLogits)
    return dist.prior.log_m()[0][:, None] + dist.emission.logits[0].log_softmax(-1)


def candidates(model, k, source=SOURCE, max_length=4, depth=None):
    """Sentences of the k best derivations, and of the best of each length, by enumeration; log p of each."""
    found = naive.best_derivations(scores(model, source, depth), 10**6)
    best = [tokens for _, _, tokens in found[:k] if len(tokens) <= max_length]
    best += [next(tokens for _, _, tokens in found if len(tokens) == n) for n in range(1, max_length + 1)]
    known = scores_of_all(model, source, 4, depth)
    return {tokens: known[tokens] for tokens in best}


def by_sentence(found, penalty=0.0):
    return {tokens: score / ((6 + len(tokens)) / 6) ** penalty for tokens, score in found.items()}


def by_risk(found, penalty=0.0):
    """The expected similarity to a candidate that is drawn with its probability."""
    shares = {tokens: math.exp(score) for tokens, score in by_sentence(found, penalty).items()}
    total = math.fsum(shares.values())
    return {one: math.fsum(share / total * similar(one, other) for other, share in shares.items()) for one in found}


RANKS = {"sentence": by_sentence, "risk": by_risk}


def ranked(ranks):
    return sorted(ranks, key=lambda tokens: -ranks[tokens])


def answers_of(best: Decoded):
    return unpadded(best.tokens, best.lengths)


# --- trees ------------------------------------------------------------------------------------------------------------


@every_tree
def test_the_best_sentence_by_enumeration(settings):
    """Where the candidates are everything, there is no better sentence."""
    for seed in range(3):
        for penalty in (0.0, 0.6, 3.0):
            model = tiny_model(
                seed, **settings, target_words=2, search="sentence", candidates=ALL, length_penalty=penalty
            )
            known = scores_of_all(model, SOURCE, 4)
            best = model.topk(make_batch([SOURCE], [[0]]), 5)
            expected = ranked(by_sentence(known, penalty))[:5]
            assert answers_of(best) == expected
            assert best.log_prob[:, 0].tolist() == pytest.approx([known[tokens] for tokens in expected])
            alone = model.decode(make_batch([SOURCE], [[0]]))
            assert answers_of(alone) == expected[:1]


@every_search
@pytest.mark.parametrize("k", [1, 3, 10, ALL])
@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_the_best_candidate_by_enumeration(search, k, penalty):
    for seed in range(6):
        model = tiny_model(seed, target_words=2, search=search, candidates=k, length_penalty=penalty)
        found = candidates(model, k)
        ranks = RANKS[search](found, penalty)
        best = model.decode(make_batch([SOURCE], [[0]]))
        (answer,) = answers_of(best)
        assert ranks[answer] == pytest.approx(max(ranks.values()), abs=1e-12)
        assert best.log_prob.item() == pytest.approx(found[answer])
        several = model.topk(make_batch([SOURCE], [[0]]), k + 6)  # more than there may be
        found = candidates(model, k + 6)
        ranks = RANKS[search](found, penalty)
        assert [ranks[a] for a in answers_of(several) if a] == pytest.approx(
            sorted(ranks.values(), reverse=True)[: k + 6]
        )
        assert len({a for a in answers_of(several) if a}) == min(k + 6, len(found))
        absent = several.lengths == 0
        assert torch.equal(several.log_prob == -math.inf, absent)


@every_search
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("max_length", [1, 2, 3, 9])
def test_other_lengths_and_depths(search, max_length, depth):
    model = tiny_model(2, target_words=2, search=search, candidates=7)
    assert isinstance(model.decoder, CTree)
    with torch.no_grad():
        model.decoder.leaf.bias.copy_(torch.tensor([-3.0, 3.0]))
    found = candidates(model, 7, max_length=min(max_length, 1 << depth), depth=depth)
    ranks = RANKS[search](found)
    (answer,) = answers_of(model.decode(make_batch([SOURCE], [[0]]), max_length, depth))
    assert ranks[answer] == pytest.approx(max(ranks.values()), abs=1e-12)


@every_search
def test_an_answer_has_its_best_tree(search):
    for seed in range(4):
        model = tiny_model(seed, target_words=2, search=search, candidates=5)
        best = model.topk(make_batch([SOURCE], [[0]]), 4)
        assert best.derivation is not None
        assert torch.equal(best.derivation.log_prob, best.log_prob)
        assert torch.equal(best.derivation.tokens, best.tokens)
        for rank, answer in enumerate(answers_of(best)):
            if not answer:
                assert (best.derivation.vertices[rank] == -1).all()
                continue
            posterior = naive.posterior(scores(model)[:, list(answer)].T)
            (tree,) = unpadded(best.derivation.vertices[rank], best.lengths[rank])
            assert posterior[tree] == pytest.approx(max(posterior.values()))
            assert (best.derivation.vertices[rank, 0, len(answer) :] == -1).all()


@every_search
@every_tree
def test_each_source_alone_and_in_a_batch(settings, search):
    sources, _ = some_pairs()
    model = tiny_model(1, **settings, search=search, candidates=200)  # all: which of equal ones are so is chance
    together = model.topk(some_batch(), 3)
    for b, source in enumerate(sources):
        alone = model.topk(make_batch([source], [[0]]), 3)
        assert answers_of(alone) == answers_of(together[:, b])
        torch.testing.assert_close(alone.log_prob[:, 0], together.log_prob[:, b])
        assert alone.derivation is not None
        assert together.derivation is not None
        mine = unpadded(alone.derivation.vertices, alone.lengths)
        assert mine == unpadded(together.derivation.vertices[:, b], together.lengths[:, b])


@every_search
def test_little_memory_and_many_words(search, monkeypatch):
    model, batch = tiny_model(2, target_words=9, search=search, candidates=6), some_batch()
    whole = model.topk(batch, 4)
    monkeypatch.setattr(choosing, "BLOCK_ELEMENTS", 1)
    monkeypatch.setattr(output, "BLOCK_ELEMENTS", 1)
    blocked = model.topk(batch, 4)
    assert answers_of(blocked) == answers_of(whole)
    torch.testing.assert_close(blocked.log_prob, whole.log_prob)
    assert blocked.derivation is not None
    assert whole.derivation is not None
    assert torch.equal(blocked.derivation.vertices, whole.derivation.vertices)


@every_search
@pytest.mark.parametrize("max_length", [None, 3])
def test_of_equals_the_first(search, max_length):
    """All words and all trees are equal: of each length all sentences are, and there is one answer all the same."""
    dist = LatentTree(torch.zeros(2, 31), torch.zeros(2, 31, 3), validate_args=False)
    config = ModelConfig(search=search, candidates=8)
    found = [choosing.of_trees(dist, 3, config, max_length) for _ in range(3)]
    for again in found[1:]:
        assert torch.equal(again.tokens, found[0].tokens)
        assert torch.equal(again.log_prob, found[0].log_prob)
    assert answers_of(found[0][:, 0]) == answers_of(found[0][:, 1])


def test_of_equals_the_first_in_order():
    """Six sentences of one or two words, four of them equal, and a rounding error in favour of another."""
    tokens = torch.tensor([[1, 0], [2, 0], [0, 2], [2, 9], [0, 2], [1, 9]])[:, None]
    lengths = torch.tensor([2, 2, 2, 1, 2, 1])[:, None]
    log_prob = torch.tensor([-1.0, -1.0 + 1e-7, -1.0, -0.9, -1.0, -1.0])[:, None]
    once = choosing._each_once(Decoded(tokens, lengths, log_prob), 7)
    assert answers_of(once) == [(1,), (2,), (0, 2), (1, 0), (2, 0), (), ()]
    assert answers_of(choosing._best(once, once.log_prob, 4)) == [(2,), (1,), (0, 2), (1, 0)]
    several = choosing._best(once, once.log_prob, 7)
    assert answers_of(several)[4:] == [(2, 0), (), ()]
    assert several.log_prob[5:].isneginf().all()


def test_where_nothing_is_possible():
    dist = LatentTree(torch.full((2, 7), -math.inf), torch.zeros(2, 7, 2))  # four words, whatever else
    for search in OTHERS:
        config = ModelConfig(search=search, candidates=3)
        found = choosing.of_trees(dist, 2, config, 3)
        assert found.lengths.tolist() == [[0, 0], [0, 0]]
        assert found.log_prob.isneginf().all()
        assert choosing.of_trees(dist, 2, config).lengths.tolist() == [[4, 4], [4, 4]]


def test_the_answers_of_a_distribution_are_those_of_its_model():
    for search in ("tree", *OTHERS):
        model, batch = tiny_model(3, search=search, candidates=4), some_batch()
        best, same = model.decode(batch), model.best(model.distribution(batch))
        assert answers_of(best) == answers_of(same)
        torch.testing.assert_close(best.log_prob, same.log_prob)


@every_search
def test_text_and_trees(search):
    model = tiny_model(search=search, candidates=5)
    found, known = model.answer("s3 s1 s2", 3), explain(model, "s3 s1 s2", 3)
    assert [one.text for one in found] == [one.text for one in known]
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in known])
    for one, other in zip(found, known, strict=True):
        score = model.score(model.batch(["s3 s1 s2"], [one.text])).item()
        assert one.log_prob == pytest.approx(score)
        assert one.tree is not None
        assert other.tree is not None
        assert one.tree == other.tree.to_nltk()


def test_validation_does_not_take_long():
    """It is the quick search, whatever answers are asked for later."""
    model, batch = tiny_model(search="risk"), some_batch()
    found, quick = model.examine(batch)[0], model.with_search("tree").decode(batch)
    assert answers_of(found) == answers_of(quick)
    assert torch.equal(found.log_prob, quick.log_prob)


# --- beams ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", SEQUENTIAL)
def test_the_least_risk_among_beams(decoder):
    plain, batch = tiny_model(1, decoder=decoder, output="mlp", length_penalty=0.6), some_batch()
    settings: list[tuple[Search, dict[str, int]]] = [
        ("sentence", {}),
        ("risk", {"candidates": 12}),
        ("risk", {"candidates": 1, "beam": 7}),
    ]
    for search, wide in settings:
        model = plain.with_search(search, candidates=wide.get("candidates"), beam=wide.get("beam"))
        best = model.topk(batch, 2)
        if search == "sentence":
            assert answers_of(best) == answers_of(plain.topk(batch, 2))
            continue
        there = plain.topk(batch, max(wide.values()))
        for b in range(4):
            found = dict(zip(answers_of(there[:, b]), there.log_prob[:, b].tolist(), strict=True))
            ranks = by_risk(found, 0.6)
            chosen = answers_of(best[:, b])
            assert [ranks[one] for one in chosen] == pytest.approx(sorted(ranks.values(), reverse=True)[:2], abs=1e-9)
            assert best.log_prob[:, b].tolist() == pytest.approx([found[one] for one in chosen])
        assert answers_of(model.decode(batch)) == answers_of(best[0])
        assert best.derivation is None


def test_a_beam_of_another_width():
    plain, batch = tiny_model(4, decoder="gru", output="mlp"), some_batch()
    wide = tiny_model(4, decoder="gru", output="mlp", beam=9, length_penalty=2.0)
    wide.load_state_dict(plain.state_dict())
    found = plain.with_search(beam=9, length_penalty=2.0).decode(batch)
    assert answers_of(found) == answers_of(wide.decode(batch))
    assert answers_of(found) != answers_of(plain.decode(batch))


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_another_search_with_the_same_weights(settings):
    model, batch = tiny_model(**settings), some_batch()
    before = model.decode(batch)
    search, candidates = ("tree", None) if settings["decoder"] == "grammar" else ("risk", 3)
    other = model.with_search(search, candidates)
    assert (other.config.search, other.config.candidates) == (search, candidates or 32)
    assert (model.config.search, model.config.candidates) == ("tree", 32)
    assert [id(p) for p in other.parameters()] == [id(p) for p in model.parameters()]
    assert other.state_dict().keys() == model.state_dict().keys()
    other.train()
    assert not any(part.training for part in model.modules())
    with torch.no_grad():
        next(other.parameters()).add_(1)
        assert torch.equal(other.eval().score(batch), model.score(batch))
        next(other.parameters()).sub_(1)
    assert answers_of(model.decode(batch)) == answers_of(before)


@pytest.mark.parametrize(
    ("settings", "given", "name"),
    [
        ({}, {"beam": 5}, "beam"),
        ({}, {"candidates": 5}, "candidates"),
        ({}, {"search": "risk", "beam": 5}, "beam"),
        ({"decoder": "lstm", "output": "mlp"}, {"search": "sentence", "candidates": 5}, "candidates"),
        ({"decoder": "lanmt", "output": "mlp"}, {"length_penalty": 1.0}, "length_penalty"),
        (GRAMMAR, {"length_penalty": 1.0}, "length_penalty"),
    ],
)
def test_what_makes_no_difference_is_refused(settings, given, name):
    with pytest.raises(
        ModelError, match=f"^{name}: got .* and the search '.*', which have no use for it; expected none$"
    ):
        tiny_model(**settings).with_search(**given)


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({}, {"length_penalty": 1.0}),
        ({}, {"search": "sentence", "candidates": 5, "length_penalty": 1.0}),
        ({"decoder": "lstm", "output": "mlp"}, {"search": "sentence", "beam": 5, "length_penalty": 1.0}),
        ({"decoder": "lstm", "output": "mlp"}, {"search": "risk", "candidates": 5, "beam": 5}),
        ({"decoder": "lanmt", "output": "mlp"}, {"search": "risk", "candidates": 5, "length_penalty": 1.0}),
    ],
)
def test_what_makes_a_difference_is_taken(settings, given):
    config = tiny_model(**settings).with_search(**given).config
    assert {name: getattr(config, name) for name in given} == given


def test_the_search_is_saved(tmp_path):
    tiny_model().with_search("sentence", 5, length_penalty=0.5).float().save_pretrained(tmp_path)
    loaded = Seq2Seq.from_pretrained(tmp_path)
    assert (loaded.config.search, loaded.config.candidates, loaded.config.length_penalty) == ("sentence", 5, 0.5)
    assert loaded.answer("s1 s2")[0].text == loaded.with_search().answer("s1 s2")[0].text


@every_search
def test_a_grammar_has_a_search_of_its_own(search):
    said = f"^search: got '{search}'; expected 'tree': the decoder 'grammar' has its own$"
    with pytest.raises(ModelError, match=said):
        tiny_model(**GRAMMAR, search=search)
    with pytest.raises(ModelError, match=said):
        tiny_model(**GRAMMAR).with_search(search)


def test_a_grammar_of_your_own(monkeypatch):
    class Own(DECODERS["grammar"]):
        searches = ("tree", "risk")

    monkeypatch.setitem(DECODERS, "own", Own)
    settings: dict[str, Any] = {**GRAMMAR, "decoder": "own", "search": "risk"}
    model = tiny_model(**settings)
    assert isinstance(model.decoder, TreeDecoder)
    assert isinstance(model.distribution(some_batch()), LatentGrammar)
    with pytest.raises(ModelError, match=r"^search: got 'risk' with a LatentGrammar; expected 'tree'$"):
        model.decode(some_batch())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"search": "best"}, "search: got 'best'; expected tree or sentence or risk"),
        ({"candidates": 0}, "candidates: got 0; expected a whole number, 1 or more"),
        ({"beam": 2.0}, "beam: got 2.0; expected a whole number, 1 or more"),
        ({"length_penalty": -1}, "length_penalty: got -1; expected a number from 0 to 7"),
        ({"length_penalty": 8}, "length_penalty: got 8; expected a number from 0 to 7"),
    ],
)
def test_bad_settings(settings, said):
    for make in (
        tiny_model().with_search,
        lambda **given: Seq2Seq(ModelConfig(depth=2, **given), words("s", 2), words("t", 2)),
    ):
        with pytest.raises(ModelError) as caught:
            make(**settings)
        assert str(caught.value) == said


@every_search
@pytest.mark.parametrize("decoder", ["ctree", "gru"])
def test_bad_k(search, decoder):
    model = tiny_model(decoder=decoder, output="mlp", search=search)
    with pytest.raises(ValueError, match="k: got 0; expected a whole number, 1 or more"):
        model.topk(some_batch(), 0)
