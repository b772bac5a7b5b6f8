import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from nltk import Tree
from torch import Tensor
from torch.func import functional_call

from torch_ctree.models import ENCODERS, Encoding, ModelError, Seq2Seq
from torch_ctree.models.decoders import Grammar, as_answers
from torch_ctree.models.decoders import grammar as grammar_decoder
from torch_ctree.models.encoders.spans import Spans
from torch_ctree.models.lexicon import Lexicon
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
from ..test_lexicon import meanings

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


def encoder_of(model: Seq2Seq) -> Spans:
    assert isinstance(model.encoder, Spans)
    return model.encoder


class Says(Lexicon):
    """A lexicon of given numbers."""

    table: Tensor

    def __init__(self, table: list[list[float]]):
        super().__init__(4, len(table[0]), len(table))
        self.register_buffer("table", torch.tensor(table, dtype=double))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


def saying(model: Seq2Seq, table: list[list[float]]) -> Seq2Seq:
    decoder_of(model).lexicon = Says(table)
    return model


def distribution(model: Seq2Seq, *sources: Sequence[int], depth: int | None = None) -> LatentGrammar:
    dist = model.distribution(make_batch(sources, [[0]] * len(sources)), depth)
    assert isinstance(dist, LatentGrammar)
    return dist


def all_phrases(words: int) -> list[Phrase]:
    """In the order of the grammar."""
    return [(i, j) for j in range(words) for i in range(j + 1)]


def states(words: int, stays: int, operators: int, staying: int | None = None) -> list[State]:
    """In the order of the grammar. staying: operators of those that have been kept, by default all"""
    choices = [operators, *stays * [staying or operators]]
    return [(i, j, n, o) for i, j in all_phrases(words) for n, most in enumerate(choices) for o in range(most)]


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


def by_hand(model: Seq2Seq, source: list[int], hidden: Sequence[int] = ()) -> Plain:
    """With the words at some places hidden, as in training."""
    decoder, config = decoder_of(model), model.config
    encoding = model.encode(make_batch([source], [[0]]))
    read, embeddings = (plain.numbers(x[0]) for x in (encoding.internal, encoding.embeddings))
    meant = [meanings(decoder.lexicon)[token] for token in source]
    says = [math.fsum(meaning) for meaning in meant]
    phrases, chosen = all_phrases(len(source)), {}
    for i, j in phrases:
        parts = zip((math.fsum(says[i : j + 1]), says[i], says[j]), plain.numbers(decoder.says_chosen), strict=True)
        logits = plain.add(plain.linear(decoder.choose, read[j][i]), *(plain.scaled(*each) for each in parts))
        chosen[i, j] = plain.softmax(logits)
    worth = plain.numbers(decoder.says_found)
    known = [
        plain.add(plain.scaled(place not in hidden, word), plain.scaled(much, worth))
        for place, (word, much) in enumerate(zip(embeddings, says, strict=True))
    ]
    leaf, words, sides = {}, {}, ({}, {})
    for state in states(len(source), config.stays, config.operators, config.stay_operators):
        i, j, kept, o = state
        end, operator = kept == config.stays, plain.numbers(decoder.operator[o])
        queries, relations, nexts = (
            plain.linear(layer, operator) for layer in (decoder.query, decoder.relation, decoder.next_operator)
        )

        def found(n: int, state: State = state, queries=queries, relations=relations) -> dict[Phrase, float]:
            """Weights of the parts of a phrase, and of itself: as the left child, the right one, or what a leaf says"""
            i, j, *_ = state
            weights = {}
            for a, b in [(a, b) for a, b in phrases if i <= a and b <= j]:
                lies = [a == i, a == i + 1, b == j, b == j - 1, (a, b) == (i, j), a == b]
                found_by = key(decoder, known[i : j + 1], (a - i, b - i))
                score = plain.dot(part(queries, n, 3), part(found_by, n, 3)) / math.sqrt(config.width)
                weights[a, b] = math.exp(score + plain.dot(part(relations, n, 3), [float(x) for x in lies]))
            return weights

        alone = {a: weight for (a, b), weight in found(2).items() if a == b}
        shares = [weight / math.fsum(alone.values()) for weight in alone.values()]
        said = plain.average(shares, [meant[a] for a in alone])
        often = plain.sigmoid(plain.linear(decoder.leaf, operator)[0]) * math.fsum(said)
        leaf[state] = 1.0 if i == j and end else often
        words[state] = plain.scaled(1 / math.fsum(said), said)
        for side in range(2):
            weights: dict[Phrase | State, float] = {}
            for phrase, weight in found(side).items():
                if phrase != (i, j):
                    weights[phrase] = weight
                elif not end:
                    following = plain.softmax(part(nexts, side, 2))
                    weights |= {(i, j, kept + 1, p): weight * x for p, x in enumerate(following)}
            total = math.fsum(weights.values())
            sides[side][state] = {child: weight / total for child, weight in weights.items()}
    return Plain((0, len(source) - 1), chosen, leaf, *sides, words)


def key(decoder: Grammar, words: list[plain.Vector], place: Phrase) -> plain.Vector:
    """What a part of a phrase is found by: so many words before and after where it begins, and where it ends."""
    edge, near = plain.numbers(decoder.edge), range(-decoder.window, decoder.window)
    ends = (
        (layer, [n for step in near for n in (words[gap + step] if 0 <= gap + step < len(words) else edge)])
        for layer, gap in ((decoder.begin, place[0]), (decoder.end, place[1] + 1))
    )
    return plain.add(*(plain.linear(layer, around) for layer, around in ends))


def sides(dist: LatentGrammar) -> tuple[Tensor, Tensor]:
    """(B, Q, Q) each: log-probabilities with a column for every state"""
    left, right = (all_states(logits, dist.operator_logits) for logits in (dist.left_logits, dist.right_logits))
    return left, right


def part(x: list[float], n: int, parts: int) -> list[float]:
    size = len(x) // parts
    return x[n * size : (n + 1) * size]


# --- states, one by one -----------------------------------------------------------------------------------------------


SIZES = pytest.mark.parametrize(
    ("operators", "stays", "staying"), [(1, 1, None), (1, 2, None), (3, 1, None), (2, 2, None), (3, 1, 2), (3, 2, 1)]
)


@SIZES
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("source", [[3], [1, 2], [3, 0, 3, 4]], ids=len)
def test_by_hand(operators, stays, staying, window, source):
    """Alone, and padded."""
    model = tiny(operators=operators, stays=stays, stay_operators=staying, window=window)
    expected = by_hand(model, source)
    phrases, listed = all_phrases(len(source)), states(len(source), stays, operators, staying)
    for beside in ([], [[1, 2, 4, 0, 3]]):
        dist = distribution(model, source, *beside)
        left, right = (side[0].exp() for side in sides(dist))
        assert phrases[int(dist.root[0])] == expected.root
        for p, phrase in enumerate(phrases):
            by_staying = stays * (staying or operators)  # which no phrase is read as
            row = [*expected.operators[phrase], *by_staying * [0.0]]
            torch.testing.assert_close(dist.operator_logits[0, p].softmax(-1), torch.tensor(row, dtype=double))
        for s, state in enumerate(listed):
            assert dist.leaf_logits.sigmoid()[0, s].item() == pytest.approx(expected.leaf[state], abs=1e-12)
            torch.testing.assert_close(
                dist.token_logits[0, s].softmax(-1), torch.tensor(expected.words[state], dtype=double)
            )
            for found, side in ((left, expected.left), (right, expected.right)):
                if expected.leaf[state] < 1:  # else there are no children
                    children = expected.children(side, state)
                    row = [children.get(child, 0.0) for child in listed] + [0.0] * (len(found) - len(listed))
                    torch.testing.assert_close(found[s], torch.tensor(row, dtype=double), rtol=0, atol=1e-9)


@SIZES
@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_rows_are_distributions(operators, stays, staying, noise):
    """Of padding too: nothing is NaN, though weights be extreme."""
    model = tiny(operators=operators, stays=stays, stay_operators=staying)
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
def test_children_have_smaller_phrases_or_keep_theirs(operators, stays, staying):
    """And all of these are possible."""
    dist = distribution(tiny(operators=operators, stays=stays, stay_operators=staying), [3, 1, 2, 2])
    listed = states(4, stays, operators, staying)
    for side in sides(dist):
        possible = (side[0] > -math.inf).tolist()
        for (s, parent), (t, child) in itertools.product(enumerate(listed), enumerate(listed)):
            if dist.leaf_logits[0, s] < math.inf:
                assert possible[s][t] == can_follow(parent, child, stays), (parent, child)


@SIZES
def test_derivations_end(operators, stays, staying):
    """Whatever can be reached from a source's root in a padded batch: no state comes back, and none is of padding."""
    sources = some_pairs()[0]
    dist = distribution(tiny(operators=operators, stays=stays, stay_operators=staying), *sources)
    listed = states(max(map(len, sources)), stays, operators, staying)
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


def test_at_first_all_words_are_alike():
    """And it is worth nothing yet that some have more to say: neither to choose an operator, nor to find phrases."""
    likeness = tiny()
    fresh = Seq2Seq(likeness.config, likeness.source, likeness.target).double().eval()
    one, other, longer = fresh.score(make_batch([[1, 2, 3], [4, 0, 4], [4, 0, 4, 4]], [[2, 1]] * 3)).tolist()
    assert one == pytest.approx(other, abs=1e-12)
    assert one != pytest.approx(longer, abs=1e-12)
    little, much = (distribution(saying(fresh, [[x, 0, x]] * 5), [1, 2, 3]) for x in (0.1, 0.4))
    for name in ("left_logits", "right_logits", "operator_logits"):
        assert torch.equal(getattr(little, name), getattr(much, name))


SAID = [[0.5, 0.1, 0.0], [0.0, 0.3, 0.3], [0.0, 0.3, 0.3], [0.1, 0.0, 0.9], [0.0, 0.2, 0.0]]
"""The second word says what the third one does."""


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("alike", ["to say", "to read"])
def test_phrases_are_found_by_the_words_around_their_ends_alone(window, alike):
    """Another word in the middle of a source, which has the same to say or reads the same

    Then what does not begin or end near it is found as before, and so is all by a phrase that does not have it inside.
    """
    model, middle = saying(tiny(window=window), SAID), 3
    if alike == "to read":
        saying(model, [*SAID[:2], [0.2, 0.0, 0.6], *SAID[3:]])
        with torch.no_grad():
            for table in (encoder_of(model).embedding, encoder_of(model).single):
                table.weight[1] = table.weight[2]
    one, other = (distribution(model, source) for source in ([3, 4, 0, 1, 4, 0, 3], [3, 4, 0, 2, 4, 0, 3]))
    phrases = all_phrases(7)
    near = range(middle - window + 1, middle + window + 1)  # the gaps that see it; gap n is before word n
    seen, inside = [i in near or j + 1 in near for i, j in phrases], [i <= middle <= j for i, j in phrases]
    staying = torch.tensor(seen).repeat_interleave(9)[:, None].expand(-1, 6)  # the columns of the phrase itself
    changes = torch.cat([torch.tensor(seen).expand(len(phrases) * 9, -1), staying], 1)
    changes &= torch.tensor(inside).repeat_interleave(9)[:, None]
    for name in ("left_logits", "right_logits"):
        before, after = getattr(one, name)[0], getattr(other, name)[0]
        possible = before > -math.inf
        assert torch.equal(possible, after > -math.inf)
        assert torch.equal(before != after, changes & possible)
    chosen = (dist.operator_logits[0, :, :3] for dist in (one, other))
    assert (torch.sub(*chosen).abs().amax(-1) > 1e-12).tolist() == inside  # sums of words differ in their roundings
    words = {i for (i, j), is_seen in zip(phrases, seen, strict=True) if is_seen and i == j}
    finds = [  # one word finds itself
        i < j and is_inside and not words.isdisjoint(range(i, j + 1))
        for (i, j), is_inside in zip(phrases, inside, strict=True)
    ]
    says = [a or (b and alike == "to read") for a, b in zip(finds, inside, strict=True)]
    changed = (one.token_logits - other.token_logits).abs().amax(-1)[0] > 1e-9
    assert changed.unflatten(0, (-1, 9)).tolist() == [[each] * 9 for each in says]


# --- leaves -----------------------------------------------------------------------------------------------------------


def is_certain(state: State, stays: int = 2) -> bool:
    """One word that has been kept as often as it may has nothing left to become."""
    i, j, kept, _ = state
    return i == j and kept == stays


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("phrase", [(0, 1), (1, 3), (2, 4), (3, 3), (0, 4)])
def test_what_is_made_of_a_phrase_is_the_same_wherever_it_stands(window, phrase):
    """As a part of a source, and as a source of its own: all sentences are as probable."""
    (i, j), source = phrase, [3, 1, 4, 0, 2]
    model = tiny(window=window)
    whole, alone = distribution(model, source), distribution(model, source[i : j + 1])
    parts = whole.leaf_logits, whole.left_logits, whole.right_logits, whole.token_logits
    root = torch.tensor([all_phrases(5).index(phrase)])
    inside = LatentGrammar(*parts, root, whole.operator_logits, validate_args=False)
    for sentence in ([0], [2, 1], [1, 0, 0, 2], [2, 2, 1, 0, 1, 2]):
        tokens, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
        torch.testing.assert_close(inside.log_prob(tokens, lengths), alone.log_prob(tokens, lengths))


def test_an_operator_ends_phrases_of_every_kind_as_often():
    """Where all words have as much to say; but for words that have nothing left to become."""
    model = saying(tiny(), [[0.6, 0.0, 0.0], [0.0, 0.3, 0.3], [0.2, 0.2, 0.2], [0.0, 0.0, 0.6], [0.1, 0.5, 0.0]])
    dist = distribution(model, [3, 1, 2, 4, 0])
    often: dict[int, set[float]] = {o: set() for o in range(3)}
    for state, logit in zip(states(5, 2, 3), dist.leaf_logits[0].tolist(), strict=True):
        if is_certain(state):
            assert logit == math.inf
        else:
            often[state[-1]].add(round(logit, 9))
    assert [len(logits) for logits in often.values()] == [1, 1, 1]
    assert len(set.union(*often.values())) == 3


@pytest.mark.parametrize("share", [0.5, 0.1, 1e-4, 0.0])
def test_a_leaf_is_as_probable_as_its_words_have_something_to_say(share):
    """What they say stays the same."""
    model, source = tiny(), [3, 1, 2, 4]
    with torch.no_grad():
        decoder_of(model).says_found.zero_()  # the same words are found
    tables = ([plain.scaled(each, row) for row in SAID] for each in (1, share))
    much, little = (distribution(saying(model, table), source) for table in tables)
    certain = torch.tensor([is_certain(state) for state in states(4, 2, 3)])
    assert torch.equal(little.leaf_logits[0] == math.inf, certain)
    expected = torch.where(certain, 1, share * much.leaf_logits[0].sigmoid())
    torch.testing.assert_close(little.leaf_logits[0].sigmoid(), expected, rtol=1e-9, atol=1e-30)
    if share:
        torch.testing.assert_close(little.token_logits.softmax(-1), much.token_logits.softmax(-1))


@pytest.mark.parametrize("stays", [1, 2])
@pytest.mark.parametrize("meaning", [[0.5, 0.1], [0.2, 0.0], [0.0, 1.0], [0.0, 0.0]], ids=sum)
def test_one_word_alone(stays, meaning):
    """A leaf as often as it has something to say, and at last surely: some sentence is said, though it say nothing."""
    model = saying(tiny(operators=2, stays=stays, target_words=2), [[0.3, 0.3], meaning])
    dist, decoder = distribution(model, [1]), decoder_of(model)
    much = math.fsum(meaning)
    said = plain.scaled(1 / much, meaning) if much else [0.5, 0.5]
    for s, state in enumerate(states(1, stays, 2)):
        ends = plain.sigmoid(plain.linear(decoder.leaf, plain.numbers(decoder.operator[state[-1]]))[0])
        often = 1 if is_certain(state, stays) else ends * much
        assert dist.leaf_logits[0, s].sigmoid().item() == pytest.approx(often, rel=1e-9, abs=1e-30)
        assert dist.token_logits[0, s].softmax(-1).tolist() == pytest.approx(said, rel=1e-9, abs=1e-30)
    scores = scores_of_all(model, [1], 2**stays)
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, double])
def test_what_may_split_can(dtype):
    """However sure an operator is to end, and though words say all they can: or nothing could be learned of it."""
    model = saying(tiny(), [[1.0, 0.0, 0.0]] * 5).to(dtype)
    with torch.no_grad():
        decoder_of(model).leaf.bias.fill_(100)
    score = model.score(make_batch([[3, 1, 2], [4]], [[0, 0], [0, 0]]))
    assert (score < -10).all()
    assert score.isfinite().all()
    score.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_impossible_words_have_finite_gradients():
    """In single precision: what is less probable than any number is as improbable as the least one."""
    model = tiny().float()
    decoder_of(model).lexicon.scale = 1e4
    said = decoder_of(model).lexicon(torch.arange(5)[None])
    assert (said.sum(-1) == 0).any()  # some have nothing to say
    score = model.score(make_batch([[0, 1, 2, 3, 4], *([n] for n in range(5))], [[0, 1, 2]] * 6))
    assert score.isfinite().all()
    score.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_padding_is_not_found_and_says_nothing():
    """Whatever word it is."""
    model, real = tiny(window=2), 3 * 9  # states, of the 3 phrases of two words; five words have 15
    alone = distribution(model, [3, 1])
    for fill in range(5):
        dist = model.distribution(make_batch([[3, 1], [1, 2, 4, 0, 3]], [[0]] * 2, fill))
        assert isinstance(dist, LatentGrammar)
        assert dist.root[0] == alone.root[0]
        torch.testing.assert_close(dist.operator_logits[0, :3], alone.operator_logits[0])
        for name in ("leaf_logits", "token_logits"):
            torch.testing.assert_close(getattr(dist, name)[0, :real], getattr(alone, name)[0])
        for name in ("left_logits", "right_logits"):
            parts, padding, staying = getattr(dist, name)[0, :real].tensor_split((3, 15), 1)
            torch.testing.assert_close(torch.cat([parts, staying], 1), getattr(alone, name)[0])
            assert (padding == -math.inf).all()


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
        *(
            f"decoder.{name}"
            for name in ("operator", "edge", "begin.weight", "end.weight", "says_chosen", "says_found")
        ),
        *(f"decoder.{name}.weight" for name in ("choose", "leaf", "query", "relation", "next_operator")),
        *(f"decoder.{name}.bias" for name in ("choose", "leaf", "query", "relation", "next_operator")),
        *(f"decoder.lexicon.{name}" for name in ("source", "words")),
        *(f"decoder.lexicon.{name}_activation.norm.weight" for name in ("source", "words")),
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
def test_what_is_most_probable_at_every_vertex(depth):
    sources, _ = some_pairs()
    lengths = set()
    for seed in range(6):
        model = tiny(seed)
        found = distribution(model, *sources, depth=depth).greedy()
        for b, source in enumerate(sources):
            grammar = by_hand(model, source)
            expected = greedy(grammar, depth, grammar.root)
            assert unpadded(found.tokens[b], found.lengths[b]) == [tuple(word for word, _ in expected)]
            assert unpadded(found.vertices[b], found.lengths[b]) == [tuple(v for _, v in expected)]
            lengths.add(len(expected))
    assert depth == 0 or len(lengths) > 1  # of several kinds


def test_the_answer_is_the_most_probable_sentence():
    """Not what is most probable at every vertex, where many trees together make another sentence more probable."""
    another = 0
    for seed in range(30):
        model, source = tiny(seed, target_words=2), [3, 1, 2]
        expected = scores_of_all(model, source, 4)
        best = max(expected, key=expected.__getitem__)
        dist = distribution(model, source)
        (first,) = unpadded(dist.greedy().tokens, dist.greedy().lengths)
        if expected[best] > math.log(0.2) and first in expected:  # so that it is among the samples
            answer = model.decode(make_batch([source], [[0]]))
            assert unpadded(answer.tokens, answer.lengths) == [best]
            assert answer.derivation is not None
            (tree,) = answer.derivation.trees()
            assert tuple(map(int, tree.leaves() if isinstance(tree, Tree) else [tree])) == best
            assert answer.log_prob.item() < expected[best]  # with its tree
            another += best != first
    assert another > 2


def test_an_answer_with_more_than_half_of_the_probability_is_not_weighed(monkeypatch):
    """Nothing can be more probable; so nothing is drawn."""
    monkeypatch.setattr(LatentGrammar, "sample", None)
    sure = 0
    for seed in range(40):
        model, source = tiny(seed, target_words=2), [4]
        dist = distribution(model, source)
        first = dist.greedy()
        if dist.log_prob(first.tokens, first.lengths).item() > math.log(0.5):
            answer = model.decode(make_batch([source], [[0]]))
            assert answer.matches(first.tokens, first.lengths).all()
            sure += 1
    assert sure > 2


def test_long_answers_are_not_weighed(monkeypatch):
    monkeypatch.setattr(grammar_decoder, "LONGEST", 3)
    found = []
    for seed in range(6):
        model = tiny(seed)
        first, answer = distribution(model, *some_pairs()[0]).greedy(), model.decode(some_batch())
        long = first.lengths > 3
        assert answer.matches(first.tokens, first.lengths)[long].all()
        assert (answer.lengths[~long] <= 3).all()
        found += long.tolist()
    assert {True, False} == set(found)


def test_validation_takes_what_is_most_probable_at_every_vertex():
    """Evaluation, decoding and everything else weigh it."""
    model, batch = tiny(1), some_batch()
    dist = distribution(model, *some_pairs()[0])
    decoded, (examined, scores) = model.decode(batch), model.examine(batch)
    torch.testing.assert_close(scores, model.score(batch))
    for found, expected in ((examined, as_answers(dist.greedy())), (model.best(dist), decoded)):
        assert bool(found.matches(expected.tokens, expected.lengths).all())
        torch.testing.assert_close(found.log_prob, expected.log_prob)


@pytest.mark.parametrize("k", [1, 3])
def test_answers_do_not_depend_on_what_is_asked_beside(k):
    sources = some_pairs()[0]
    for seed in range(3):
        model = tiny(seed)
        together = model.topk(make_batch(sources, [[0]] * 4), k)
        for b, source in enumerate(sources):
            alone = model.topk(make_batch([source], [[0]]), k)
            found = unpadded(together.tokens[:, b], together.lengths[:, b])
            assert unpadded(alone.tokens[:, 0], alone.lengths[:, 0]) == found
            torch.testing.assert_close(alone.log_prob[:, 0], together.log_prob[:, b])


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


@pytest.mark.parametrize("max_length", [1, 2, 3, 5])
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


def test_words_are_hidden_in_training_alone():
    """And only where phrases are found."""
    model, batch = tiny(attention_dropout=0.5, dropout=0.0), some_batch()
    still, before = model.score(batch), distribution(model, *some_pairs()[0])
    assert torch.equal(still, model.score(batch))
    model.train()
    torch.manual_seed(0)
    assert len({tuple(model.score(batch).tolist()) for _ in range(8)}) > 4
    assert torch.equal(distribution(model, *some_pairs()[0]).operator_logits, before.operator_logits)
    same = tiny(attention_dropout=0.0, dropout=0.0).train()
    assert torch.equal(same.score(batch), still)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_each_word_is_hidden_by_itself(share):
    """In all phrases of a source at once, and in each source by chance; though the word stand there once more."""
    source, target = [3, 1, 3], (0, 1, 1)
    model = tiny(attention_dropout=share, dropout=0.0, target_words=2)
    cases = [places for n in range(4) for places in itertools.combinations(range(3), n)]
    values = torch.tensor([math.log(inside(by_hand(model, source, hidden), target)) for hidden in cases], dtype=double)
    assert values.sort().values.diff().amin() > 1e-6
    torch.manual_seed(0)
    with torch.no_grad():
        scores = model.train().score(make_batch([source] * 1000, [target] * 1000))
    distances = (scores[:, None] - values).abs()
    assert (distances.amin(1) < 1e-9).all()
    found = [cases[n] for n in distances.argmin(1).tolist()]
    chances = {hidden: share ** len(hidden) * (1 - share) ** (3 - len(hidden)) for hidden in cases}
    assert chi_square_p_value(found, chances) > 1e-3


def test_a_word_that_is_nothing_is_as_one_that_is_hidden():
    """Where phrases are found, and where operators are chosen; it says what it would."""
    source, target, settings = [3, 1, 2], [0, 1, 1], {"dropout": 0.0, "target_words": 2}
    model = tiny(**settings)
    whole = model.score(make_batch([source], [target])).item()
    with torch.no_grad():
        encoder_of(model).embedding.weight[1] = encoder_of(model).single.weight[1] = 0
        nothing = model.score(make_batch([source], [target])).item()
        noisy = tiny(attention_dropout=0.5, word_noise=0.5, **settings).train()
        torch.manual_seed(0)
        scores = noisy.score(make_batch([source] * 2000, [target] * 2000))
    for value in (whole, nothing):  # each is one of 64 that are equally probable
        share = ((scores - value).abs() < 1e-9).double().mean().item()
        assert abs(share - 1 / 64) < 4 * (1 / 64 / 2000) ** 0.5
    assert whole != pytest.approx(nothing, abs=1e-6)


def with_queries_of_no_operator(model: Seq2Seq) -> Seq2Seq:
    """All operators find the same phrases: dropout of operators does not change which."""
    decoder = decoder_of(model)
    with torch.no_grad():
        for layer in (decoder.query, decoder.relation, decoder.next_operator):
            layer.weight.zero_()
    return model


def test_dropout_of_operators_and_of_the_words_that_phrases_are_found_by():
    """In each source by itself."""
    model, sources = tiny(dropout=0.5, attention_dropout=0.0), [[3, 1, 2]] * 2
    one, other = distribution(model.train(), *sources).leaf_logits[:, :3]  # of the first word, which finds itself
    assert (one != other).all()
    one, other = distribution(with_queries_of_no_operator(model), *sources).left_logits
    assert not torch.equal(one, other)
    one, other = distribution(model.eval(), *sources).left_logits
    assert torch.equal(one, other)


def test_how_much_a_word_has_to_say_is_never_hidden():
    """Its vector is; but here that is nothing."""
    model = with_queries_of_no_operator(tiny(attention_dropout=0.9, dropout=0.5, word_noise=0.9))
    with torch.no_grad():
        encoder_of(model).embedding.weight.zero_()
    before, after = (distribution(model.train(mode), [3, 1, 2, 4]) for mode in (False, True))
    for name in ("left_logits", "right_logits", "token_logits"):
        torch.testing.assert_close(getattr(after, name), getattr(before, name))
    with torch.no_grad():
        decoder_of(model).says_found.zero_()
    assert not torch.allclose(distribution(model.eval(), [3, 1, 2, 4]).left_logits, before.left_logits)


def test_phrases_are_out_of_reach_in_training():
    """Those of several words, each as often; for whom it is out of reach, it is for all. Nobody loses his own."""
    share, sources = 0.3, [[3, 1, 2]] * 2000
    model = tiny(phrase_dropout=share, dropout=0.0, attention_dropout=0.0, operators=2)
    whole = distribution(model.eval(), sources[0])
    torch.manual_seed(0)
    dist = distribution(model.train(), *sources)
    phrases, often = all_phrases(3), []
    for n, (i, j) in enumerate(phrases):
        parents = torch.tensor([a <= i and j <= b and (a, b) != (i, j) for a, b in phrases]).repeat_interleave(6)
        if not parents.any():  # the whole source
            continue
        sides = [getattr(dist, name)[:, parents, n] > -math.inf for name in ("left_logits", "right_logits")]
        there = torch.cat(sides, 1)
        assert (there.all(1) | ~there.any(1)).all()
        assert (whole.left_logits[0, parents, n] > -math.inf).all()
        if i == j:
            assert there.all()
        else:
            often.append(~there[:, 0])
    one, other = often
    for lost, expected in ((one, share), (other, share), (one & other, share**2)):
        assert abs(lost.double().mean().item() - expected) < 4 * (expected * (1 - expected) / 2000) ** 0.5
    staying = len(phrases) + 2 - 1  # the first column of the next level
    assert (dist.left_logits[:, 6 * phrases.index((0, 1)), staying] > -math.inf).all()
