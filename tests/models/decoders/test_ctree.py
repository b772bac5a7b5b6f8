import itertools
import math

import pytest
import torch

from torch_ctree.models import Encoding, ModelError, Seq2Seq
from torch_ctree.models import output as outputs
from torch_ctree.models.decoders import CTree
from torch_ctree.trees import CopyEmission, LatentTree, LinearEmission, TokenLogits, naive
from torch_ctree.trees.topology import level, topology

from .. import plain
from ..build import (
    EVERYTHING,
    OUTPUTS,
    make_batch,
    padded,
    scores_of_all,
    sentences,
    some_batch,
    some_pairs,
    tiny_model,
    unpadded,
)

double = torch.float64
TREES = {name: settings for name, settings in EVERYTHING.items() if settings["decoder"] == "ctree"}
every_tree = pytest.mark.parametrize("settings", TREES.values(), ids=TREES)


def decoder_of(model: Seq2Seq) -> CTree:
    assert isinstance(model.decoder, CTree)
    return model.decoder


def grown(decoder: CTree, source: plain.Source, depth: int):
    """States, contexts, l_v and word logits of every vertex, in heap order and plain numbers."""
    states = [plain.activation(decoder.activation, plain.linear(decoder.root, source.root))]
    contexts = [source.root]  # the root's is the encoder's root itself
    for v in range((1 << depth) - 1):
        states += plain.production(decoder.production, states[v], contexts[v])
        contexts += [plain.context(decoder.attention, state, source.nodes) for state in states[-2:]]
    shares = [
        plain.softmax(plain.linear(decoder.leaf, state + context))
        for state, context in zip(states, contexts, strict=True)
    ]
    words = [
        plain.word_logits(decoder.output, state, context, source)
        for state, context in zip(states, contexts, strict=True)
    ]
    return states, contexts, [leaf for leaf, _ in shares], words


def joint(leaf, words, tree, tokens):
    """log p(sentence, tree): every vertex above the leaves splits, every leaf above the deepest level stops."""
    total = 0.0
    above = {ancestor for v in tree for ancestor in ancestors(v)}
    for v in above:
        total += math.log(1 - leaf[v])
    for v, token in zip(tree, tokens, strict=True):
        total += plain.log_softmax(words[v])[token] + (math.log(leaf[v]) if v < len(leaf) // 2 else 0)
    return total


def ancestors(v):
    while v > 0:
        v = (v - 1) // 2
        yield v


def everything(model: Seq2Seq, source, depth):
    """log p of every (sentence, tree)."""
    encoding = model.encode(make_batch([source], [[0]]))
    _, _, leaf, words = grown(decoder_of(model), plain.source(encoding, 0), depth)
    return {
        (tokens, tree): joint(leaf, words, tree, tokens)
        for tree in naive.trees(depth)
        for tokens in itertools.product(range(len(model.target)), repeat=len(tree))
    }


# --- the tree of states -----------------------------------------------------------------------------------------------


@every_tree
def test_expansion_by_hand(settings):
    model = tiny_model(**settings)
    decoder, encoding = decoder_of(model), model.encode(some_batch())
    tree = decoder.expand(encoding, 2)
    logits = decoder.output.logits(tree.states, tree.contexts, encoding)
    for b in range(4):
        states, contexts, leaf, words = grown(decoder, plain.source(encoding, b), 2)
        pairs = [
            (tree.states[b], states),
            (tree.leaf_logits[b, :3].sigmoid(), leaf[:3]),
            (logits[b], words),
        ]
        if tree.contexts is not None:
            pairs.append((tree.contexts[b], contexts))
        for found, expected in pairs:
            torch.testing.assert_close(found, torch.tensor(expected, dtype=double), rtol=0, atol=1e-9)


@every_tree
@pytest.mark.parametrize("deeper", [1, 3])
def test_a_shallow_tree_is_the_top_of_a_deeper_one(settings, deeper):
    model = tiny_model(**settings)
    encoding = model.encode(some_batch())
    for depth in range(deeper):
        small, large = (decoder_of(model).expand(encoding, d) for d in (depth, deeper))
        V = topology(depth).vertices
        torch.testing.assert_close(small.states, large.states[:, :V])
        torch.testing.assert_close(small.leaf_logits[:, : V // 2], large.leaf_logits[:, : V // 2])
        if small.contexts is not None:
            assert large.contexts is not None
            torch.testing.assert_close(small.contexts, large.contexts[:, :V])


def test_it_starts_undecided_about_leaves():
    """The leaf predictor starts with zero weights: every vertex has the same l_v, whatever its state."""
    model = Seq2Seq(tiny_model().config, *(tiny_model().source, tiny_model().target))
    logits = decoder_of(model).expand(model.encode(some_batch()), 2).leaf_logits[:, level(0).start : level(1).stop]
    torch.testing.assert_close(logits, logits[:1, :1].expand_as(logits))


# --- likelihoods ------------------------------------------------------------------------------------------------------


@every_tree
@pytest.mark.parametrize(("trained", "depth"), [(1, None), (2, None), (1, 2), (2, 1), (2, 0), (1, 3)])
def test_all_sentences_sum_to_one(settings, trained, depth):
    model = tiny_model(**settings, target_words=2, depth=trained)
    longest = 1 << (trained if depth is None else depth)
    for source in ([1], [3, 0, 4]):
        scores = scores_of_all(model, source, longest, depth)
        assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1, abs=1e-12)


@every_tree
def test_longer_sentences_are_impossible(settings):
    scores = scores_of_all(tiny_model(**settings, target_words=1), [1, 2], 7)
    assert [score > -math.inf for score in scores.values()] == [True] * 4 + [False] * 3


@every_tree
def test_score_by_enumeration(settings):
    """Of every sentence: the sum over its trees, with everything derived by hand."""
    model, source = tiny_model(**settings, target_words=2), [3, 1, 2]
    joints = everything(model, source, 2)
    for sentence, score in scores_of_all(model, source, 4).items():
        expected = math.log(math.fsum(math.exp(value) for (tokens, _), value in joints.items() if tokens == sentence))
        assert score == pytest.approx(expected, abs=1e-9)


def test_the_distribution_is_that_of_score():
    model, batch = tiny_model(), some_batch()
    torch.testing.assert_close(
        model.distribution(batch).log_prob(batch.target, batch.target_lengths), model.score(batch)
    )
    assert model.distribution(batch).depth == 2
    assert model.distribution(batch, depth=3).depth == 3


# --- search -----------------------------------------------------------------------------------------------------------


@every_tree
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_decode_is_exact(settings, depth):
    sources, _ = some_pairs()
    for seed in range(3):
        model = tiny_model(seed, **settings)
        best = model.decode(make_batch(sources, [[0]] * 4), depth=depth)
        assert best.derivation is not None
        for b, source in enumerate(sources):
            (tokens, tree), log_prob = max(everything(model, source, depth).items(), key=lambda item: item[1])
            assert best.log_prob[b].item() == pytest.approx(log_prob, abs=1e-9)
            assert unpadded(best.tokens[b], best.lengths[b]) == [tokens]
            assert unpadded(best.derivation.vertices[b], best.lengths[b]) == [tree]


@every_tree
def test_topk_is_exact(settings):
    model, source = tiny_model(**settings, target_words=2), [3, 1, 2]
    ranked = sorted(everything(model, source, 2).items(), key=lambda item: -item[1])
    best = model.topk(make_batch([source], [[0]]), len(ranked) + 2)
    assert best.derivation is not None
    torch.testing.assert_close(
        best.log_prob[:-2, 0], torch.tensor([value for _, value in ranked], dtype=double), rtol=0, atol=1e-9
    )
    trees = unpadded(best.derivation.vertices, best.lengths)[:-2]
    found = zip(unpadded(best.tokens, best.lengths)[:-2], trees, strict=True)
    assert set(found) == {key for key, _ in ranked}
    assert best.lengths[-2:].tolist() == [[0], [0]]  # there are no more
    assert best.log_prob[-2:].tolist() == [[-math.inf]] * 2


@every_tree
@pytest.mark.parametrize("max_length", [1, 2, 3, 4, 9])
def test_max_length(settings, max_length):
    model, source = tiny_model(3, **settings, target_words=2), [3, 1, 2]
    with torch.no_grad():
        decoder_of(model).leaf.bias.copy_(torch.tensor([-4.0, 4.0]))  # it would rather be long
    short = {key: value for key, value in everything(model, source, 2).items() if len(key[0]) <= max_length}
    best = model.decode(make_batch([source], [[0]]), max_length=max_length)
    (tokens, _), log_prob = max(short.items(), key=lambda item: item[1])
    assert best.log_prob.item() == pytest.approx(log_prob, abs=1e-9)
    assert unpadded(best.tokens, best.lengths) == [tokens]


@every_tree
@pytest.mark.parametrize("depth", [0, 1, 3, 4])
def test_depth_when_answering(settings, depth):
    """A valid answer of a tree no deeper than asked for, and at least as probable under a deeper one."""
    model, batch = tiny_model(**settings), some_batch()
    best = model.decode(batch, depth=depth)
    dist = model.distribution(batch, depth)
    assert isinstance(dist, LatentTree)
    assert best.derivation is not None
    assert (best.lengths >= 1).all()
    assert (best.lengths <= 1 << depth).all()
    torch.testing.assert_close(dist.joint_log_prob(best.derivation), best.log_prob)
    assert (best.log_prob <= dist.log_prob(best.tokens, best.lengths) + 1e-12).all()


# --- large vocabularies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_many_words_are_scored_in_blocks_with_the_same_result(output, monkeypatch):
    """4 sentences × 7 vertices × 9 words: as a tensor, and where that would be too large."""
    model = tiny_model(output=output, target_words=9)
    batch = make_batch(*some_pairs())

    def results(limit):
        monkeypatch.setattr(outputs, "BLOCK_ELEMENTS", limit)
        model.zero_grad()
        scores = model.score(batch)
        scores.sum().backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        best, several = model.decode(batch), model.topk(batch, 3)
        answers = [best.tokens, best.lengths, best.log_prob, several.tokens, several.lengths, several.log_prob]
        dist = model.distribution(batch)
        assert isinstance(dist, LatentTree)
        return type(dist.emission), [scores.detach(), *gradients, *answers]

    kind, whole = results(4 * 7 * 9)
    blocked_kind, blocked = results(4 * 7 * 9 - 1)
    assert (kind, blocked_kind) == (TokenLogits, CopyEmission if output == "copy" else LinearEmission)
    for a, b in zip(whole, blocked, strict=True):
        torch.testing.assert_close(a, b)


# --- attention --------------------------------------------------------------------------------------------------------


def test_contexts_only_where_they_are_wanted(monkeypatch):
    """The deepest level of a tree needs none where words come from the state alone."""
    for output, levels in (("mlp", [2, 4, 8]), ("linear", [2, 4]), ("lexical-attention", [2, 4]), ("copy", [2, 4, 8])):
        model, batch = tiny_model(output=output, depth=3), some_batch()
        encoding, seen = model.encode(batch), []
        attention = decoder_of(model).attention
        forward = attention.forward
        monkeypatch.setattr(
            attention, "forward", lambda s, m, f=forward, seen=seen: (seen.append(s.shape[1]), f(s, m))[1]
        )
        decoder_of(model).expand(encoding, 3)
        assert seen == levels


def test_any_encoding_will_do():
    """What a decoder needs is an Encoding, whoever made it."""
    model = tiny_model()
    B, S, M, H = 2, 3, 2, 4
    leaves, contextual, embeddings = torch.randn(3, B, S, H, dtype=double)
    encoding = Encoding(
        root=torch.randn(B, H, dtype=double),
        internal=torch.randn(B, S, M, H, dtype=double),
        leaves=leaves,
        contextual=contextual,
        embeddings=embeddings,
        tokens=torch.randint(5, (B, S)),
        mask=torch.tensor([[True, True, True], [True, False, False]]),
    )
    everything = list(sentences(3, 4))
    for b in range(B):
        repeated = Encoding(**{name: part[[b] * len(everything)] for name, part in vars(encoding).items()})
        assert model.decoder.score(repeated, *padded(everything)).exp().sum().item() == pytest.approx(1)


def test_a_longest_length_is_for_the_best_answer_alone():
    model = tiny_model(decoder="ctree")
    with pytest.raises(ModelError, match="max_length: got 2 for the 3 best"):
        model.decoder.topk(model.encode(some_batch()), 3, max_length=2)


def test_examining_is_decoding_and_scoring():
    model, batch = tiny_model(decoder="ctree"), some_batch()
    decoded, scores = model.examine(batch)
    torch.testing.assert_close(scores, model.score(batch))
    assert bool(decoded.matches(model.decode(batch).tokens, model.decode(batch).lengths).all())


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_longer_answers_may_be_preferred(penalty):
    """What is best by its probability for its length, exactly; in validation too."""
    model, source = tiny_model(length_penalty=penalty), [1, 2, 3]
    with torch.no_grad():
        decoder_of(model).leaf.bias.copy_(torch.tensor([-2.0, 0.0]))
    batch = make_batch([source], [[0]])
    dist = model.distribution(batch)
    assert isinstance(dist, LatentTree)
    each = dist.argmax_by_length()
    ranks = (each.log_prob[:, 0] / ((6 + each.lengths[:, 0]) / 6) ** penalty).tolist()
    order = sorted(range(4), key=lambda n: -ranks[n])
    best = model.decode(batch)
    assert best.lengths.item() == 1 + order[0]
    torch.testing.assert_close(best.log_prob, each.log_prob[order[0]])
    assert best.derivation is not None
    assert best.derivation.vertices.tolist() == [each.vertices[order[0], 0, : 1 + order[0]].tolist()]
    examined, _ = model.examine(batch)
    assert torch.equal(examined.tokens, best.tokens)
    several = model.topk(batch, 6)
    assert several.lengths[:, 0].tolist() == [*(1 + n for n in order), 0, 0]
    assert several.log_prob[4:, 0].isneginf().all()
    torch.testing.assert_close(several.log_prob[:4], each.log_prob[order])
    assert several.derivation is not None
    assert (several.derivation.vertices[4:] == -1).all()
    without = model.with_search(length_penalty=0)
    assert torch.equal(without.decode(batch).tokens, dist.argmax().tokens)
    assert torch.equal(without.with_search(length_penalty=penalty).decode(batch).tokens, best.tokens)
    assert len(model.answers(["s1 s2 s3"], 6)[0]) == 4
