import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from torch_ctree.models import ENCODERS, Encoding, ModelError, Seq2Seq
from torch_ctree.models.decoders import Grammar
from torch_ctree.models.encoders.spans import Spans
from torch_ctree.trees import LatentGrammar

from ...measure import all_states
from .. import plain
from ..build import (
    GRAMMAR,
    make_batch,
    padded,
    scores_of_all,
    some_batch,
    some_pairs,
    tiny_model,
    unpadded,
)

double = torch.float64
State = tuple[int, int, int]
"""The first word of a phrase, its last one, and an operator."""


def tiny(seed: int = 0, **settings) -> Seq2Seq:
    torch.manual_seed(seed)
    return tiny_model(seed, **GRAMMAR, **{"operators": 3, **settings})


def decoder_of(model: Seq2Seq) -> Grammar:
    assert isinstance(model.decoder, Grammar)
    return model.decoder


def distribution(model: Seq2Seq, *sources: Sequence[int]) -> LatentGrammar:
    dist = model.distribution(make_batch(sources, [[0]] * len(sources)))
    assert isinstance(dist, LatentGrammar)
    return dist


def states(words: int, operators: int) -> list[State]:
    """In the order of the grammar."""
    return [(i, j, o) for j in range(words) for i in range(j + 1) for o in range(operators)]


class Plain(NamedTuple):
    """A grammar in plain numbers, for one source."""

    root: State
    leaf: dict[State, float]
    left: dict[State, dict[State, float]]
    right: dict[State, dict[State, float]]
    words: dict[State, list[float]]


def can_follow(parent: State, child: State) -> bool:
    """A part of it, with operator 0; or the same phrase with a later operator."""
    (i, j, o), (a, b, p) = parent, child
    return p > o if (a, b) == (i, j) else i <= a and b <= j and p == 0


def by_hand(model: Seq2Seq, source: list[int]) -> Plain:
    decoder, operators = decoder_of(model), decoder_of(model).operators
    encoding = model.encode(make_batch([source], [[0]]))
    read = plain.numbers(encoding.internal[0])
    everything = states(len(source), operators)
    edge, width = plain.numbers(decoder.edge), model.config.width
    embeddings = [edge, *plain.numbers(encoding.embeddings[0]), edge]
    says = decoder.lexicon(torch.tensor([source]), covered(source)).exp()[0]
    leaf, words, sides = {}, {}, ({}, {})
    for state in everything:
        i, j, o = state
        seen = read[j][i] if o == 0 else [0.0] * width
        features = plain.relu(plain.linear(decoder.hidden, seen + plain.numbers(decoder.operator[o])))
        leaf[state] = 1.0 if i == j and o == operators - 1 else plain.sigmoid(plain.linear(decoder.leaf, features)[0])
        words[state] = plain.numbers(says[j * (j + 1) // 2 + i])
        queries, relations, nexts = (
            plain.linear(layer, features) for layer in (decoder.query, decoder.relation, decoder.next_operator)
        )
        for side in range(2):
            query, relation, following = (half(x, side) for x in (queries, relations, nexts))
            scores = {}
            for a, b in {
                (a, b) for a, b, _ in everything if any(can_follow(state, (a, b, p)) for p in range(operators))
            }:
                around = embeddings[a] + embeddings[b + 2] + embeddings[a + 1] + embeddings[b + 1]
                key = half(plain.linear(decoder.key, around), side)
                lies = [a == i, a == i + 1, b == j, b == j - 1, (a, b) == (i, j), a == b]
                scores[a, b] = plain.dot(query, key) / math.sqrt(width) + plain.dot(relation, [float(x) for x in lies])
            sides[side][state] = shared(state, scores, following)
    return Plain((0, len(source) - 1, 0), leaf, *sides, words)


def sides(dist: LatentGrammar) -> tuple[Tensor, Tensor]:
    """(B, Q, Q) each: a column for every state"""
    left, right = (all_states(logits, dist.operators) for logits in (dist.left_logits, dist.right_logits))
    return left, right


def half(x: list[float], side: int) -> list[float]:
    return x[side * len(x) // 2 : (side + 1) * len(x) // 2]


def shared(parent: State, scores: dict[tuple[int, int], float], following: list[float]) -> dict[State, float]:
    """First the phrase, then the operator among those that there can be."""
    found = {}
    for (a, b), share in zip(scores, plain.softmax(list(scores.values())) if scores else [], strict=True):
        possible = [o for o in range(len(following)) if can_follow(parent, (a, b, o))]
        for o, part in zip(possible, plain.softmax([following[o] for o in possible]), strict=True):
            found[a, b, o] = share * part
    return found


def covered(source: list[int]) -> Tensor:
    """(1, P, S)"""
    S = len(source)
    return torch.tensor([[[i <= k <= j for k in range(S)] for j in range(S) for i in range(j + 1)]])


# --- states, one by one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operators", [1, 2, 4])
@pytest.mark.parametrize("source", [[3], [1, 2], [3, 0, 3, 4]], ids=len)
def test_by_hand(operators, source):
    model = tiny(operators=operators)
    dist, expected = distribution(model, source), by_hand(model, source)
    listed = states(len(source), operators)
    left, right = (side.softmax(-1)[0] for side in sides(dist))
    assert listed[int(dist.root)] == expected.root
    for s, state in enumerate(listed):
        assert dist.leaf_logits.sigmoid()[0, s].item() == pytest.approx(expected.leaf[state], abs=1e-12)
        torch.testing.assert_close(dist.token_logits[0, s].exp(), torch.tensor(expected.words[state], dtype=double))
        for found, side in ((left, expected.left), (right, expected.right)):
            if expected.leaf[state] < 1:  # else there are no children
                row = [side[state].get(child, 0.0) for child in listed]
                torch.testing.assert_close(found[s], torch.tensor(row, dtype=double), rtol=0, atol=1e-9)


@pytest.mark.parametrize("operators", [1, 2, 3, 6])
@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_rows_are_distributions(operators, noise):
    """Of padding too: nothing is NaN, though weights be extreme."""
    model = tiny(operators=operators)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=noise)
    dist = distribution(model, *some_pairs()[0])
    for logits in (dist.left_logits, dist.right_logits, dist.token_logits):
        torch.testing.assert_close(logits.exp().sum(-1), torch.ones_like(logits[..., 0]))
    assert not dist.leaf_logits.isnan().any()


@pytest.mark.parametrize("operators", [1, 3])
def test_children_have_parts_of_the_phrase_or_later_operators(operators):
    """And all of these are possible."""
    dist = distribution(tiny(operators=operators), [3, 1, 2, 2])
    listed = states(4, operators)
    for logits, (s, parent), (t, child) in itertools.product(sides(dist), enumerate(listed), enumerate(listed)):
        if dist.leaf_logits[0, s] < math.inf:
            assert (logits[0, s, t] > -math.inf) == can_follow(parent, child), (parent, child)


@pytest.mark.parametrize("operators", [1, 2, 5])
def test_derivations_end(operators):
    """Whatever can be reached from a source's root in a padded batch: no state comes back, and none is of padding."""
    sources = some_pairs()[0]
    dist = distribution(tiny(operators=operators), *sources)
    listed = states(max(map(len, sources)), operators)
    left, right = sides(dist)
    for b, source in enumerate(sources):
        follows = {
            s: [t for t in range(len(listed)) if max(left[b, s, t], right[b, s, t]) > -math.inf]
            if dist.leaf_logits[b, s] < math.inf
            else []
            for s in range(len(listed))
        }
        deepest: dict[int, int] = {}

        def depth(state: int, above: tuple[int, ...] = (), follows=follows, deepest=deepest) -> int:
            assert state not in above, "a cycle"
            if state not in deepest:
                deepest[state] = max((1 + depth(child, (*above, state)) for child in follows[state]), default=0)
            return deepest[state]

        assert depth(int(dist.root[b])) == len(source) * operators - 1
        assert all(listed[state][1] < len(source) for state in deepest)


def test_operators_other_than_the_first_do_not_read():
    """Another state of a phrase, with the same words around: only operator 0 of that phrase does something else."""
    model, source = tiny(), [3, 1, 2]
    encoding = model.encode(make_batch([source], [[0]]))
    listed = states(3, 3)
    before = decoder_of(model).distribution(encoding)
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        internal = encoding.internal.clone()
        internal[0, j, i] += 1
        parts = {**vars(encoding), "internal": internal}
        after = decoder_of(model).distribution(type(encoding)(**parts))
        changed = set()
        for name in ("leaf_logits", "left_logits", "right_logits"):
            rows = zip(getattr(before, name)[0].exp(), getattr(after, name)[0].exp(), strict=True)
            changed |= {listed[s] for s, (a, b) in enumerate(rows) if not torch.equal(a, b)}
        assert changed == {(i, j, 0)}
        assert torch.equal(before.token_logits, after.token_logits)
    assert before.states == len(listed) == 6 * 3


def test_blind_operators_do_the_same_to_phrases_whose_ends_look_the_same():
    """ "a x b" and "a y b", alone: what stands inside changes nothing but what is found in there."""
    model = tiny()
    one, other = (distribution(model, source) for source in ([3, 1, 4], [3, 2, 4]))
    listed = states(3, 3)
    for s, (i, j, o) in enumerate(listed):
        if o > 0 and (i, j) == (0, 2):
            assert torch.equal(one.leaf_logits[0, s], other.leaf_logits[0, s])
        elif o == 0 and i <= 1 <= j:
            assert not torch.equal(one.leaf_logits[0, s], other.leaf_logits[0, s])


# --- sentences --------------------------------------------------------------------------------------------------------


def inside(grammar: Plain, sentence: tuple[int, ...]) -> float:
    """p(sentence) by recursion."""
    known: dict[tuple[State, int, int], float] = {}

    def value(state: State, start: int, end: int) -> float:
        if (state, start, end) not in known:
            total = grammar.leaf[state] * grammar.words[state][sentence[start]] if end == start + 1 else 0.0
            for middle in range(start + 1, end):
                if grammar.leaf[state] < 1:
                    left, right = (
                        math.fsum(share * value(child, a, b) for child, share in side[state].items())
                        for side, a, b in ((grammar.left, start, middle), (grammar.right, middle, end))
                    )
                    total += (1 - grammar.leaf[state]) * left * right
            known[state, start, end] = total
        return known[state, start, end]

    return value(grammar.root, 0, len(sentence))


@pytest.mark.parametrize("operators", [1, 3])
def test_score_by_hand(operators):
    model, source = tiny(operators=operators, target_words=2), [3, 1, 2]
    grammar = by_hand(model, source)
    for sentence, score in scores_of_all(model, source, 4).items():
        assert math.exp(score) == pytest.approx(inside(grammar, sentence), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("source", "operators", "longest"), [([3], 1, 1), ([3], 2, 2), ([3], 3, 4), ([1, 2], 1, 2), ([1, 2], 2, 8)]
)
def test_all_sentences_sum_to_one(source, operators, longest):
    """S words and O operators make trees of depth S · O − 1 at most."""
    scores = scores_of_all(tiny(operators=operators, target_words=2), source, longest + 1)
    assert math.fsum(math.exp(s) for x, s in scores.items() if len(x) <= longest) == pytest.approx(1, abs=1e-12)
    assert all((score > -math.inf) == (len(sentence) <= longest) for sentence, score in scores.items())


def test_the_depth_bounds_answers_alone():
    model, batch = tiny(), some_batch()
    assert torch.equal(model.score(batch), model.score(batch, depth=0))
    assert model.decode(batch, depth=0).lengths.tolist() == [1] * 4
    for depth in range(4):
        assert (model.topk(batch, 3, depth=depth).lengths <= 1 << depth).all()


@pytest.mark.parametrize(
    "name",
    [
        *(f"decoder.{name}" for name in ("operator", "edge", "hidden.weight", "leaf.weight", "query.weight")),
        *(f"decoder.{name}" for name in ("relation.weight", "next_operator.weight", "key.weight")),
        *(f"decoder.lexicon.{name}" for name in ("source.weight", "words", "weight.weight")),
        "encoder.embedding.weight",
        "encoder.forwards.weight_hh_l0",
    ],
)
def test_gradients_are_derivatives(name):
    model = tiny(width=2, target_words=2)
    batch = make_batch([[1, 2, 3], [4]], [[1, 0, 1], [0, 1]])

    class Score(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return self.model.score(batch)

    def score(value: Tensor) -> Tensor:
        return functional_call(Score(), {f"model.{name}": value}, ())

    assert torch.autograd.gradcheck(score, (model.get_parameter(name).detach().requires_grad_(),))


# --- answers ----------------------------------------------------------------------------------------------------------


def greedy(grammar: Plain, depth: int, state: State | None = None, vertex: int = 0) -> list[tuple[int, int]]:
    """(word, vertex) of each leaf, each vertex doing what is most probable."""
    state = grammar.root if state is None else state
    if depth == 0 or grammar.leaf[state] >= 0.5:
        return [(max(range(len(grammar.words[state])), key=grammar.words[state].__getitem__), vertex)]
    left, right = (max(side[state], key=side[state].__getitem__) for side in (grammar.left, grammar.right))
    return [*greedy(grammar, depth - 1, left, 2 * vertex + 1), *greedy(grammar, depth - 1, right, 2 * vertex + 2)]


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_the_answer_follows_maxima(depth):
    sources, _ = some_pairs()
    lengths = set()
    for seed in range(6):
        model = tiny(seed)
        batch = make_batch(sources, [[0]] * 4)
        answers = model.decode(batch, depth=depth)
        assert answers.derivation is not None
        for b, source in enumerate(sources):
            expected = greedy(by_hand(model, source), depth)
            assert unpadded(answers.tokens[b], answers.lengths[b]) == [tuple(word for word, _ in expected)]
            assert unpadded(answers.derivation.vertices[b], answers.lengths[b]) == [tuple(v for _, v in expected)]
            lengths.add(len(expected))
    assert depth == 0 or len(lengths) > 1  # of several kinds


def test_validation_and_evaluation_see_the_same_answers():
    model, batch = tiny(1), some_batch()
    decoded, (examined, scores), dist = model.decode(batch), model.examine(batch), model.distribution(batch)
    torch.testing.assert_close(scores, model.score(batch))
    for found in (examined, model.best(dist)):
        assert bool(found.matches(decoded.tokens, decoded.lengths).all())
        torch.testing.assert_close(found.log_prob, decoded.log_prob)


@pytest.mark.parametrize("k", [2, 5, 40])
def test_the_k_best_are_distinct_sentences_by_their_probability(k):
    model, sources = tiny(2, target_words=2), [[3, 1, 2], [4]]
    batch = make_batch(sources, [[0]] * 2)
    best = model.topk(batch, k)
    assert best.derivation is not None
    only = model.decode(batch)
    for b, source in enumerate(sources):
        expected = scores_of_all(model, source, 4)
        answers = [answer for answer in unpadded(best.tokens[:, b], best.lengths[:, b]) if answer]
        found = best.log_prob[: len(answers), b].tolist()
        assert len(set(answers)) == len(answers) > 1
        assert found == pytest.approx([expected[answer] for answer in answers])
        assert found == sorted(found, reverse=True)
        assert best.log_prob[len(answers) :, b].tolist() == [-math.inf] * (k - len(answers))  # no more were drawn
        trees = best.derivation[: len(answers), b].trees()
        assert [tuple(map(int, tree.leaves())) for tree in trees] == answers
        if k == 40:
            assert unpadded(only.tokens[b], only.lengths[b])[0] in answers


def test_several_answers_are_the_same_every_time():
    """Though they are samples; and they take nothing from the randomness of others."""
    model, batch = tiny(), some_batch()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = model.topk(batch, 4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = model.topk(batch, 4)
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.log_prob, again.log_prob)


def wordy(seed: int = 0, **settings) -> Seq2Seq:
    """It would rather say much."""
    model = tiny(seed, depth=4, **settings)
    with torch.no_grad():
        decoder_of(model).leaf.bias.sub_(2)
    return model


@pytest.mark.parametrize("max_length", [1, 2, 3, 7])
def test_max_length(max_length):
    model, batch = wordy(), some_batch()
    free, best = model.decode(batch), model.decode(batch, max_length=max_length)
    exact = distribution(model, *some_pairs()[0]).argmax(max_length)
    assert (free.lengths > max_length).any()
    assert (best.lengths >= 1).all()
    assert (best.lengths <= max_length).all()
    expected = torch.where(free.lengths > max_length, exact.log_prob, free.log_prob)
    torch.testing.assert_close(best.log_prob, expected)
    several = decoder_of(model).topk(model.encode(batch), 3, max_length)
    assert (several.lengths <= max_length).all()
    assert ((several.lengths == 0) == (several.log_prob == -math.inf)).all()


@pytest.mark.parametrize("max_length", [1, 3])
def test_a_long_answer_does_not_change_those_beside_it(max_length):
    sources = some_pairs()[0]
    for seed in range(4):
        model = wordy(seed)
        together = model.decode(make_batch(sources, [[0]] * 4), max_length=max_length)
        for b, source in enumerate(sources):
            alone = model.decode(make_batch([source], [[0]]), max_length=max_length)
            assert unpadded(alone.tokens, alone.lengths) == unpadded(together.tokens[b], together.lengths[b])
            torch.testing.assert_close(alone.log_prob[0], together.log_prob[b])


# --- encoders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["ordered-memory", "birnn"])
def test_other_encoders_are_refused_at_once(encoder):
    """Not only where their nodes are not as many as a source's words."""
    with pytest.raises(ModelError) as caught:
        tiny_model(encoder=encoder, decoder="grammar", slots=5)
    said = f"encoder: got '{encoder}'; expected one that reads phrases, such as 'spans', for the decoder 'grammar'"
    assert str(caught.value) == said


def test_an_encoder_of_your_own_that_reads_phrases(monkeypatch):
    class Louder(Spans):
        def forward(self, tokens: Tensor, lengths: Tensor):
            parts = vars(super().forward(tokens, lengths))
            return Encoding(**{**parts, "internal": 2 * parts["internal"]})

    monkeypatch.setitem(ENCODERS, "louder", Louder)
    model, batch = tiny_model(encoder="louder", decoder="grammar"), some_batch()
    model.loss(batch).backward()
    assert not torch.equal(model.score(batch), tiny_model(**GRAMMAR).score(batch))


def test_an_encoding_without_phrases():
    encoding = tiny_model(encoder="birnn").encode(make_batch([[1, 2]], [[0]]))
    with pytest.raises(ModelError, match=r"^encoder: got one without phrases; expected 'spans' with .* 'grammar'$"):
        tiny().decoder.score(encoding, *padded([[0]]))


# --- training ---------------------------------------------------------------------------------------------------------


def test_ends_are_hidden_in_training_alone():
    """Of the four words that tell where a phrase is."""
    model, batch = tiny(attention_dropout=0.5, dropout=0.0), some_batch()
    still = model.score(batch)
    assert torch.equal(still, model.score(batch))
    model.train()
    torch.manual_seed(0)
    assert len({tuple(model.score(batch).tolist()) for _ in range(8)}) > 4
    same = tiny(attention_dropout=0.0, dropout=0.0).train()
    assert torch.equal(same.score(batch), still)
