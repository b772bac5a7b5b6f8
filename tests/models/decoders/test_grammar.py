import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from torch_ctree.models import ENCODERS, Encoding, ModelError, Seq2Seq
from torch_ctree.models.decoders import Grammar
from torch_ctree.models.encoders.spans import Spans
from torch_ctree.trees import LatentGrammar

from ...measure import all_states, chi_square_p_value
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
Phrase = tuple[int, int]
"""Its first word and its last one."""
State = tuple[int, int, int, int]
"""A phrase, how often it has been kept, and an operator."""


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


def all_phrases(words: int) -> list[Phrase]:
    """In the order of the grammar."""
    return [(i, j) for j in range(words) for i in range(j + 1)]


def states(words: int, stays: int, operators: int) -> list[State]:
    """In the order of the grammar."""
    return [(i, j, n, o) for i, j in all_phrases(words) for n in range(stays + 1) for o in range(operators)]


class Plain(NamedTuple):
    """A grammar in plain numbers, for one source. A child has a phrase, and then an operator of it; or a state."""

    root: Phrase
    operators: dict[Phrase, list[float]]
    leaf: dict[State, float]
    left: dict[State, dict[Phrase | State, float]]
    right: dict[State, dict[Phrase | State, float]]
    words: dict[State, list[float]]

    def arriving(self, phrase: Phrase) -> dict[State, float]:
        return {(*phrase, 0, o): share for o, share in enumerate(self.operators[phrase])}

    def children(self, side: dict[State, dict[Phrase | State, float]], parent: State) -> dict[State, float]:
        found = {}
        for child, share in side[parent].items():
            if len(child) == 2:
                found |= {state: share * part for state, part in self.arriving(child).items()}
            else:
                found[child] = share
        return found


def can_follow(parent: State, child: State, stays: int) -> bool:
    """A smaller part of it, not kept before; or the same phrase, kept once more than it was."""
    (i, j, n, _), (a, b, m, _) = parent, child
    return m == n + 1 <= stays if (a, b) == (i, j) else i <= a and b <= j and m == 0


def by_hand(model: Seq2Seq, source: list[int]) -> Plain:
    decoder, config = decoder_of(model), model.config
    encoding = model.encode(make_batch([source], [[0]]))
    read = plain.numbers(encoding.internal[0])
    says = decoder.lexicon(torch.tensor([source]), covered(source)).exp()[0]
    phrases = all_phrases(len(source))
    chosen = {(i, j): plain.softmax(plain.linear(decoder.choose, read[j][i])) for i, j in phrases}
    keys = {phrase: key(decoder, plain.numbers(encoding.embeddings[0]), phrase) for phrase in phrases}
    leaf, words, sides = {}, {}, ({}, {})
    for state in states(len(source), config.stays, config.operators):
        i, j, kept, o = state
        end, operator = kept == config.stays, plain.numbers(decoder.operator[o])
        leaf[state] = 1.0 if i == j and end else plain.sigmoid(plain.linear(decoder.leaf, operator)[0])
        words[state] = plain.numbers(says[phrases.index((i, j))])
        queries, relations, nexts = (
            plain.linear(layer, operator) for layer in (decoder.query, decoder.relation, decoder.next_operator)
        )
        for side in range(2):
            query, relation, following = (half(x, side) for x in (queries, relations, nexts))
            weights: dict[Phrase | State, float] = {}
            for a, b in phrases:
                lies = [a == i, a == i + 1, b == j, b == j - 1, (a, b) == (i, j), a == b]
                score = plain.dot(query, half(keys[a, b], side)) / math.sqrt(config.width)
                weight = math.exp(score + plain.dot(relation, [float(x) for x in lies]))
                if (a, b) == (i, j) and not end:
                    weights |= {(i, j, kept + 1, p): weight * x for p, x in enumerate(plain.softmax(following))}
                elif (a, b) != (i, j) and i <= a and b <= j:
                    weights[a, b] = weight
            total = math.fsum(weights.values())
            sides[side][state] = {child: weight / total for child, weight in weights.items()}
    return Plain((0, len(source) - 1), chosen, leaf, *sides, words)


def key(decoder: Grammar, words: list[plain.Vector], phrase: Phrase) -> plain.Vector:
    """What a phrase is found by: so many words before and after where it begins, and where it ends."""
    edge, near = plain.numbers(decoder.edge), range(-decoder.window, decoder.window)
    ends = (
        (layer, [n for step in near for n in (words[gap + step] if 0 <= gap + step < len(words) else edge)])
        for layer, gap in ((decoder.begin, phrase[0]), (decoder.end, phrase[1] + 1))
    )
    return plain.add(*(plain.linear(layer, around) for layer, around in ends))


def sides(dist: LatentGrammar) -> tuple[Tensor, Tensor]:
    """(B, Q, Q) each: log-probabilities with a column for every state"""
    left, right = (all_states(logits, dist.operator_logits) for logits in (dist.left_logits, dist.right_logits))
    return left, right


def half(x: list[float], side: int) -> list[float]:
    return x[side * len(x) // 2 : (side + 1) * len(x) // 2]


def covered(source: list[int]) -> Tensor:
    """(1, P, S)"""
    S = len(source)
    return torch.tensor([[[i <= k <= j for k in range(S)] for i, j in all_phrases(S)]])


# --- states, one by one -----------------------------------------------------------------------------------------------


SIZES = pytest.mark.parametrize(("operators", "stays"), [(1, 1), (1, 2), (3, 1), (2, 2)])


@SIZES
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("source", [[3], [1, 2], [3, 0, 3, 4]], ids=len)
@pytest.mark.parametrize("beside", [[], [1, 2, 4, 0, 3]], ids=["alone", "padded"])
def test_by_hand(operators, stays, window, source, beside):
    model = tiny(operators=operators, stays=stays, window=window)
    dist, expected = distribution(model, source, *([beside] if beside else [])), by_hand(model, source)
    phrases, listed = all_phrases(len(source)), states(len(source), stays, operators)
    left, right = (side[0].exp() for side in sides(dist))
    assert phrases[int(dist.root[0])] == expected.root
    for p, phrase in enumerate(phrases):
        row = [*expected.operators[phrase], *[0.0] * (stays * operators)]  # none of those that come by staying
        torch.testing.assert_close(dist.operator_logits[0, p].softmax(-1), torch.tensor(row, dtype=double))
    for s, state in enumerate(listed):
        assert dist.leaf_logits.sigmoid()[0, s].item() == pytest.approx(expected.leaf[state], abs=1e-12)
        torch.testing.assert_close(dist.token_logits[0, s].exp(), torch.tensor(expected.words[state], dtype=double))
        for found, side in ((left, expected.left), (right, expected.right)):
            if expected.leaf[state] < 1:  # else there are no children
                children = expected.children(side, state)
                row = [children.get(child, 0.0) for child in listed] + [0.0] * (len(found) - len(listed))
                torch.testing.assert_close(found[s], torch.tensor(row, dtype=double), rtol=0, atol=1e-9)


@SIZES
@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_rows_are_distributions(operators, stays, noise):
    """Of padding too: nothing is NaN, though weights be extreme."""
    model = tiny(operators=operators, stays=stays)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=noise)
    dist = distribution(model, *some_pairs()[0])
    for logits in (dist.left_logits, dist.right_logits, dist.token_logits, dist.operator_logits):
        torch.testing.assert_close(logits.softmax(-1).sum(-1), torch.ones_like(logits[..., 0]))
    for side in sides(dist):
        torch.testing.assert_close(side.exp().sum(-1), torch.ones_like(side[..., 0]))
    assert not dist.leaf_logits.isnan().any()
    parts = (dist.leaf_logits, dist.left_logits, dist.right_logits, dist.token_logits, dist.root)
    LatentGrammar(*parts, dist.operator_logits, validate_args=True)


@SIZES
def test_children_have_smaller_phrases_or_keep_theirs(operators, stays):
    """And all of these are possible."""
    dist = distribution(tiny(operators=operators, stays=stays), [3, 1, 2, 2])
    listed = states(4, stays, operators)
    for side in sides(dist):
        possible = (side[0] > -math.inf).tolist()
        for (s, parent), (t, child) in itertools.product(enumerate(listed), enumerate(listed)):
            if dist.leaf_logits[0, s] < math.inf:
                assert possible[s][t] == can_follow(parent, child, stays), (parent, child)


@SIZES
def test_derivations_end(operators, stays):
    """Whatever can be reached from a source's root in a padded batch: no state comes back, and none is of padding."""
    sources = some_pairs()[0]
    dist = distribution(tiny(operators=operators, stays=stays), *sources)
    listed = states(max(map(len, sources)), stays, operators)
    possible, leaf = (torch.maximum(*sides(dist)) > -math.inf).tolist(), dist.leaf_logits.tolist()
    for b, source in enumerate(sources):
        follows = {
            s: [t for t in range(len(listed)) if possible[b][s][t]] if leaf[b][s] < math.inf else []
            for s in range(len(listed))
        }
        deepest: dict[int, int] = {}

        def depth(state: int, above: tuple[int, ...] = (), follows=follows, deepest=deepest) -> int:
            assert state not in above, "a cycle"
            if state not in deepest:
                deepest[state] = max((1 + depth(child, (*above, state)) for child in follows[state]), default=0)
            return deepest[state]

        roots = [s for s, (i, j, kept, _) in enumerate(listed) if (i, j, kept) == (0, len(source) - 1, 0)]
        assert {depth(root) for root in roots} == {len(source) * (stays + 1) - 1}
        assert all(listed[state][1] < len(source) for state in deepest)


PARTS = ("leaf_logits", "left_logits", "right_logits", "token_logits")


def test_what_is_read_chooses_operators_and_does_nothing_else():
    """Another vector of a phrase, with the same words around: only which operator that phrase has is changed."""
    model, source = tiny(), [3, 1, 2]
    encoding = model.encode(make_batch([source], [[0]]))
    before = decoder_of(model).distribution(encoding)
    phrases = all_phrases(3)
    for i, j in phrases:
        internal = encoding.internal.clone()
        internal[0, j, i] += torch.arange(model.config.width)
        after = decoder_of(model).distribution(type(encoding)(**{**vars(encoding), "internal": internal}))
        rows = zip(phrases, before.operator_logits[0], after.operator_logits[0], strict=True)
        assert [phrase for phrase, one, other in rows if not torch.equal(one, other)] == [(i, j)]
        assert all(torch.equal(getattr(before, name), getattr(after, name)) for name in PARTS)
    assert before.states == len(states(3, 2, 3)) == 6 * 3 * 3


def test_an_operator_ends_phrases_of_every_kind_as_often():
    """But for words that have nothing left to become."""
    dist = distribution(tiny(), [3, 1, 2, 2])
    often: dict[int, set[float]] = {o: set() for o in range(3)}
    for (i, j, kept, o), logit in zip(states(4, 2, 3), dist.leaf_logits[0].tolist(), strict=True):
        if i == j and kept == 2:
            assert logit == math.inf
        else:
            often[o].add(logit)
    assert [len(logits) for logits in often.values()] == [1, 1, 1]
    assert len(set.union(*often.values())) == 3


@pytest.mark.parametrize("window", [1, 2])
def test_phrases_are_found_by_the_words_around_their_ends_alone(window):
    """Another word in the middle of a source: what does not begin or end near it is found as before."""
    model, middle = tiny(window=window), 2
    one, other = (distribution(model, source) for source in ([3, 0, 1, 4, 2], [3, 0, 2, 4, 2]))
    phrases = all_phrases(5)
    near = range(middle - window + 1, middle + window + 1)  # the gaps that see it; gap n is before word n
    seen = torch.tensor([i in near or j + 1 in near for i, j in phrases])
    assert seen.any()
    assert not seen.all()
    staying = seen.repeat_interleave(9)[:, None].expand(-1, 8)  # the columns of the phrase itself
    changes = torch.cat([seen.expand(len(phrases) * 9, -1), staying], 1)
    for name in ("left_logits", "right_logits"):
        before, after = getattr(one, name)[0], getattr(other, name)[0]
        possible = before > -math.inf
        assert torch.equal(possible, after > -math.inf)
        assert torch.equal(before != after, changes & possible)
    inside = torch.tensor([i <= middle <= j for i, j in phrases])
    chosen = (dist.operator_logits[0, :, :3] for dist in (one, other))
    assert torch.equal(torch.sub(*chosen).abs().amax(-1) > 1e-12, inside)  # sums of words differ in their roundings
    assert torch.equal((one.token_logits != other.token_logits).any(-1)[0], inside.repeat_interleave(9))
    assert torch.equal(one.leaf_logits, other.leaf_logits)


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
                        math.fsum(share * value(child, a, b) for child, share in grammar.children(side, state).items())
                        for side, a, b in ((grammar.left, start, middle), (grammar.right, middle, end))
                    )
                    total += (1 - grammar.leaf[state]) * left * right
            known[state, start, end] = total
        return known[state, start, end]

    return math.fsum(share * value(root, 0, len(sentence)) for root, share in grammar.arriving(grammar.root).items())


@pytest.mark.parametrize(("operators", "stays", "window"), [(1, 1, 1), (3, 1, 2), (2, 2, 1)])
def test_score_by_hand(operators, stays, window):
    model, source = tiny(operators=operators, stays=stays, window=window, target_words=2), [3, 1, 2]
    grammar = by_hand(model, source)
    for sentence, score in scores_of_all(model, source, 4).items():
        assert math.exp(score) == pytest.approx(inside(grammar, sentence), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("source", "operators", "stays", "words", "longest"),
    [([3], 3, 1, 2, 2), ([3], 2, 2, 2, 4), ([3], 1, 3, 2, 8), ([1, 2], 2, 1, 2, 8), ([1, 2], 2, 2, 1, 32)],
)
def test_all_sentences_sum_to_one(source, operators, stays, words, longest):
    """S words that may be kept n times make trees of depth S · (n + 1) − 1 at most, whatever the operators."""
    scores = scores_of_all(tiny(operators=operators, stays=stays, target_words=words), source, longest + 1)
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
        *(f"decoder.{name}" for name in ("operator", "edge", "begin.weight", "end.weight")),
        *(f"decoder.{name}.weight" for name in ("choose", "leaf", "query", "relation", "next_operator")),
        *(f"decoder.{name}.bias" for name in ("choose", "leaf", "query", "relation", "next_operator")),
        *(f"decoder.lexicon.{name}" for name in ("source.weight", "words", "weight.weight")),
        *(f"encoder.{name}.weight" for name in ("embedding", "word", "first", "last", "single")),
        "encoder.alone",
    ],
)
def test_gradients_are_derivatives(name):
    model = tiny(width=2, operators=2, window=2, target_words=2)
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


def most(shares: dict) -> Any:
    return max(shares, key=shares.__getitem__)


def greedy(grammar: Plain, depth: int, at: Phrase | State, vertex: int = 0) -> list[tuple[int, int]]:
    """(word, vertex) of each leaf, each vertex doing what is most probable: where it arrives, its operator too."""
    state: State = most(grammar.arriving(at)) if len(at) == 2 else at
    if depth == 0 or grammar.leaf[state] >= 0.5:
        return [(most(dict(enumerate(grammar.words[state]))), vertex)]
    left, right = (most(side[state]) for side in (grammar.left, grammar.right))
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
            grammar = by_hand(model, source)
            expected = greedy(grammar, depth, grammar.root)
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
    """Of the words that tell where a phrase is."""
    model, batch = tiny(attention_dropout=0.5, dropout=0.0), some_batch()
    still = model.score(batch)
    assert torch.equal(still, model.score(batch))
    model.train()
    torch.manual_seed(0)
    assert len({tuple(model.score(batch).tolist()) for _ in range(8)}) > 4
    same = tiny(attention_dropout=0.0, dropout=0.0).train()
    assert torch.equal(same.score(batch), still)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_each_of_the_words_around_ends_is_hidden_by_itself(share):
    """In all phrases of a source at once, and in each source by chance: as if there were no weights for its place."""
    settings = {"target_words": 2, "dropout": 0.0}
    model, batch = tiny(attention_dropout=share, **settings), make_batch([[3, 1, 2]] * 1000, [[0, 1, 1]] * 1000)
    expected = {}
    for hidden in itertools.product([False, True], repeat=4):  # before and after the beginning, and the end
        blind, width = tiny(**settings), model.config.width
        with torch.no_grad():
            places = itertools.product((decoder_of(blind).begin, decoder_of(blind).end), range(2))
            for gone, (layer, place) in zip(hidden, places, strict=True):
                layer.weight[:, place * width : (place + 1) * width] *= not gone
            expected[hidden] = blind.score(make_batch([[3, 1, 2]], [[0, 1, 1]])).item()
    values = torch.tensor(list(expected.values()), dtype=double)
    torch.manual_seed(0)
    with torch.no_grad():
        distances = (model.train().score(batch)[:, None] - values).abs()
    assert (distances.amin(1) < 1e-9).all()
    assert values.sort().values.diff().amin() > 1e-6
    found = [list(expected)[n] for n in distances.argmin(1).tolist()]
    chances = {hidden: share ** sum(hidden) * (1 - share) ** (4 - sum(hidden)) for hidden in expected}
    assert chi_square_p_value(found, chances) > 1e-3
