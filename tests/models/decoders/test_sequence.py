import itertools
import math

import pytest
import torch
from torch import nn

from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.models.decoders import production
from torch_ctree.models.decoders.ctree import CTree
from torch_ctree.models.decoders.production import ProductionSequence
from torch_ctree.models.decoders.rnn import RNNDecoder
from torch_ctree.models.decoders.sequence import SequenceDecoder
from torch_ctree.models.decoders.transformer import TransformerDecoder
from torch_ctree.models.output import MLP
from torch_ctree.models.transformer import Layer

from .. import plain
from ..build import (
    DECODERS,
    OUTPUTS,
    SEQUENTIAL,
    WITHOUT_RECURRENCE,
    make_batch,
    scores_of_all,
    some_batch,
    some_pairs,
    tiny_model,
    unpadded,
)

double = torch.float64
CHAINS = {
    f"{encoder}+{decoder}+{output}": {"encoder": encoder, "decoder": decoder, "output": output}
    for encoder, decoder, output in itertools.product(["ordered-memory", "birnn"], SEQUENTIAL, OUTPUTS)
    if output != "linear" or decoder in WITHOUT_RECURRENCE
}
every_chain = pytest.mark.parametrize("settings", CHAINS.values(), ids=CHAINS)


def chain(model: Seq2Seq) -> SequenceDecoder:
    assert isinstance(model.decoder, SequenceDecoder)
    return model.decoder


def rather(model: Seq2Seq, end: float) -> None:
    """Let it end the sooner the higher this is."""
    with torch.no_grad():
        chain(model).leaf.bias.copy_(torch.tensor([end, 0.0]))


# --- by hand ----------------------------------------------------------------------------------------------------------


class Production:
    """The state has two children: the left one speaks, the right one comes next."""

    def __init__(self, decoder: ProductionSequence, source: plain.Source):
        self.decoder, self.nodes, self.context = decoder, source.nodes, source.root
        self.state = plain.activation(decoder.activation, plain.linear(decoder.root, source.root))

    def step(self, before):
        asked = [*self.state, *self.context]
        said, self.state = plain.production(self.decoder.production, self.state, self.context)
        self.context = plain.context(self.decoder.attention, self.state, self.nodes)
        return said, asked


class Recurrent:
    """Layers that start from tanh(linear(root)), an LSTM's cells from zero."""

    def __init__(self, decoder: RNNDecoder, source: plain.Source):
        self.decoder, self.recurrence, self.nodes = decoder, decoder.recurrence, source.nodes
        self.table = plain.numbers(decoder.embedding.weight)
        start, width = plain.tanh(plain.linear(decoder.root, source.root)), len(source.root)
        self.states = [start[n * width : (n + 1) * width] for n in range(decoder.layers)]
        self.cells = [[0.0] * width] * decoder.layers

    def step(self, before):
        x = self.table[before]
        for n, state in enumerate(self.states):
            if isinstance(self.recurrence, nn.LSTM):
                x, cell = plain.lstm(self.recurrence, x, state, self.cells[n], n)
                self.cells = [*self.cells[:n], cell, *self.cells[n + 1 :]]
            else:
                assert isinstance(self.recurrence, nn.GRU)
                x = plain.gru(self.recurrence, x, state, n)
            self.states = [*self.states[:n], x, *self.states[n + 1 :]]
        return x, [*x, *plain.context(self.decoder.attention, x, self.nodes)]


class Attending:
    """Layers that see all words so far, and the source."""

    def __init__(self, decoder: TransformerDecoder, source: plain.Source):
        self.decoder, self.nodes, self.words = decoder, source.nodes, []

    def step(self, before):
        self.words.append(before)
        table = plain.numbers(self.decoder.embedding.weight)
        xs = [plain.add(table[word], plain.wave(n, len(table[0]))) for n, word in enumerate(self.words)]
        for layer in self.decoder.layers:
            assert isinstance(layer, Layer)
            xs = plain.transformer(layer, xs, self.nodes)
        x = plain.layernorm(self.decoder.norm, xs[-1])
        return x, [*x, *plain.context(self.decoder.attention, x, self.nodes)]


BY_HAND = {ProductionSequence: Production, RNNDecoder: Recurrent, TransformerDecoder: Attending}


def derived(model: Seq2Seq, source, sentence, longest):
    decoder = chain(model)
    seen = plain.source(model.encode(make_batch([source], [[0]])), 0)
    (by_hand,) = (make(decoder, seen) for kind, make in BY_HAND.items() if isinstance(decoder, kind))
    end, before, total = decoder.end, decoder.end, 0.0
    for place, word in enumerate([*sentence, end]):
        state, asked = by_hand.step(before)
        context = plain.context(decoder.attention, state, seen.nodes)
        p_leaf, _ = plain.softmax(plain.linear(decoder.leaf, asked))
        p_end = 0.0 if place == 0 else 1.0 if place >= longest else p_leaf
        if word == end:
            return total + math.log(p_end)
        total += math.log(1 - p_end) + plain.log_softmax(plain.word_logits(decoder.output, state, context, seen))[word]
        before = word
    raise AssertionError


@pytest.mark.parametrize("layers", [1, 2])
@every_chain
def test_score_by_hand(settings, layers):
    model = tiny_model(**settings, decoder_layers=layers)
    sources, targets = some_pairs()
    for depth in (2, 3):
        scores = model.score(make_batch(sources, targets), depth).tolist()
        expected = [derived(model, *pair, 1 << depth) for pair in zip(sources, targets, strict=True)]
        assert scores == pytest.approx(expected, abs=1e-10)


def test_production_is_the_tree_that_branches_to_the_right():
    settings = {"output": "linear", "depth": 3}
    sequence, tree = tiny_model(decoder="production", **settings), tiny_model(decoder="ctree", **settings)
    assert isinstance(tree.decoder, CTree)
    common = set(sequence.state_dict()) & set(tree.state_dict())
    tree.load_state_dict({name: sequence.state_dict()[name] for name in common}, strict=False)
    encoding = tree.encode(some_batch())
    states = tree.decoder.expand(encoding, 3).states
    nodes, words = chain(sequence).nodes(encoding), torch.zeros(len(states), 3, dtype=torch.long)
    left_children = [1, 5, 13]  # in heap order: of vertices 0, 2 and 6
    torch.testing.assert_close(chain(sequence).forced(encoding, words, nodes).features, states[:, left_children])


@pytest.mark.parametrize("decoder", SEQUENTIAL)
def test_lexical_attention_can_end_what_it_says_of_one_word(decoder):
    """Whatever looks at the one word of a source finds the same; but one place is not like another."""
    model = tiny_model(decoder=decoder, output="lexical-attention")
    torch.nn.init.normal_(chain(model).leaf.weight)
    encoding = model.encode(make_batch([[1]], [[0]]))
    nodes, words = chain(model).nodes(encoding), torch.full((1, 3), 2)
    log_probs = chain(model).log_probs(chain(model).forced(encoding, words, nodes), encoding, nodes, 1, 8)
    said, ends = log_probs[..., :-1].log_softmax(-1), log_probs[..., -1]
    torch.testing.assert_close(said, said[:, :1].expand_as(said))
    assert ends[0, 0] != ends[0, 1] != ends[0, 2]


# --- likelihoods ------------------------------------------------------------------------------------------------------


@every_chain
@pytest.mark.parametrize(("trained", "depth"), [(1, None), (2, None), (1, 2), (2, 1), (2, 0), (1, 3)])
def test_all_sentences_sum_to_one(settings, trained, depth):
    model = tiny_model(**settings, target_words=2, depth=trained)
    longest = 1 << (trained if depth is None else depth)
    for source in ([1], [3, 0, 4]):
        scores = scores_of_all(model, source, longest, depth)
        assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1, abs=1e-12)


@every_chain
def test_longer_sentences_are_impossible(settings):
    scores = scores_of_all(tiny_model(**settings, target_words=1), [1, 2], 7)
    assert [score > -math.inf for score in scores.values()] == [True] * 4 + [False] * 3


# --- search -----------------------------------------------------------------------------------------------------------


@every_chain
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_beam_of_everything_finds_the_best(settings, depth):
    model = tiny_model(**settings, target_words=2, beam=40)
    sources, _ = some_pairs()
    best = model.topk(make_batch(sources, [[0]] * 4), 5, depth)
    for b, source in enumerate(sources):
        scores = scores_of_all(model, source, 1 << depth, depth)
        ranked = sorted(scores.values(), reverse=True)[:5]
        found = unpadded(best.tokens[: len(ranked), b], best.lengths[: len(ranked), b])
        assert best.log_prob[: len(ranked), b].tolist() == pytest.approx(ranked, abs=1e-10)
        assert [scores[key] for key in found] == pytest.approx(ranked, abs=1e-10)  # where two tie, either may be first
        assert len(set(found)) == len(found)
        assert best.lengths[len(ranked) :, b].tolist() == [0] * (5 - len(ranked))
        assert best.log_prob[len(ranked) :, b].tolist() == [-math.inf] * (5 - len(ranked))


@every_chain
def test_every_sentence_once(settings):
    model = tiny_model(**settings, target_words=2)
    scores = scores_of_all(model, [2, 1], 4)
    best = model.topk(make_batch([[2, 1]], [[0]]), len(scores) + 3)
    found = dict(zip(unpadded(best.tokens, best.lengths), best.log_prob.flatten().tolist(), strict=True))
    assert found == pytest.approx({**scores, (): -math.inf}, abs=1e-10)


@every_chain
@pytest.mark.parametrize("beam", [1, 3])
def test_the_answer_has_the_log_prob_that_score_gives_it(settings, beam):
    model, batch = tiny_model(**settings, beam=beam), some_batch()
    for k in (1, 3):
        best = model.topk(batch, k)
        assert torch.equal(best.log_prob.sort(0, descending=True).values, best.log_prob)
        for rank in range(k):
            answered = make_batch(some_pairs()[0], unpadded(best.tokens[rank], best.lengths[rank]))
            torch.testing.assert_close(model.score(answered), best.log_prob[rank])


@every_chain
def test_decode_is_the_first_of_topk(settings):
    """With as wide a beam."""
    batch = some_batch()
    for beam in (1, 4):
        model = tiny_model(**settings, beam=beam)
        one, several = model.decode(batch), model.topk(batch, beam)
        assert unpadded(one.tokens, one.lengths) == unpadded(several.tokens[0], several.lengths[0])
        torch.testing.assert_close(one.log_prob, several.log_prob[0])


@every_chain
def test_a_beam_of_one_takes_the_best_word_at_every_step(settings):
    """The probability that a sentence goes on with a word: the sum over all that do, by ``score``."""
    for seed in range(4):
        model, source = tiny_model(seed, **settings, target_words=2), [3, 1, 2]
        scores = scores_of_all(model, source, 4)
        said = ()
        while len(said) < 4:
            n = len(said)
            goes_on = {
                word: math.fsum(math.exp(s) for key, s in scores.items() if key[: n + 1] == (*said, word))
                for word in range(2)
            }
            word = max(goes_on, key=lambda word: goes_on[word])
            if math.exp(scores.get(said, -math.inf)) > goes_on[word]:
                break
            said = (*said, word)
        best = model.decode(make_batch([source], [[0]]))
        assert unpadded(best.tokens, best.lengths) == [said]
        assert best.log_prob.item() == pytest.approx(scores[said])


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("max_length", [None, 1, 5, 7, 8])
@pytest.mark.parametrize("places", [2, 3, 32])
def test_many_places_together_as_one_after_the_other(output, max_length, places, monkeypatch):
    monkeypatch.setattr(production, "FIRST", places)
    batch = some_batch()
    for seed in range(4):
        model = tiny_model(seed, decoder="production", output=output, depth=3)
        rather(model, -1)
        together = model.decode(batch, max_length=max_length)
        with monkeypatch.context() as patch:
            patch.setattr(ProductionSequence, "topk", SequenceDecoder.topk)
            after = model.decode(batch, max_length=max_length)
        assert unpadded(together.tokens, together.lengths) == unpadded(after.tokens, after.lengths)
        torch.testing.assert_close(together.log_prob, after.log_prob)


def test_places_that_no_answer_reaches_are_not_looked_at(monkeypatch):
    model, looked = tiny_model(decoder="production", depth=8, target_words=1), []  # a word costs nothing
    rather(model, 30)
    forced = ProductionSequence.forced
    monkeypatch.setattr(ProductionSequence, "forced", lambda *given: looked.append(given[2].shape[1]) or forced(*given))
    assert model.decode(some_batch()).lengths.tolist() == [1] * 4
    rather(model, -30)
    assert model.decode(some_batch()).lengths.tolist() == [256] * 4
    assert looked == [32, 32, 64, 128, 256, 257]


@every_chain
@pytest.mark.parametrize("max_length", [1, 2, 3, 4, 9])
def test_max_length(settings, max_length):
    model, source = tiny_model(**settings, target_words=2, beam=40), [3, 1, 2]
    scores = scores_of_all(model, source, min(max_length, 4), depth=2)
    best = model.decode(make_batch([source], [[0]]), max_length=max_length)
    expected = max(scores, key=lambda key: scores[key])
    assert unpadded(best.tokens, best.lengths) == [expected]
    assert best.log_prob.item() == pytest.approx(scores[expected])


@every_chain
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_depth_when_answering(settings, depth):
    model, batch = tiny_model(**settings), some_batch()
    best = model.decode(batch, depth=depth)
    assert (best.lengths >= 1).all()
    assert (best.lengths <= 1 << depth).all()
    assert (best.tokens < len(model.target)).all()
    answered = make_batch(some_pairs()[0], unpadded(best.tokens, best.lengths))
    torch.testing.assert_close(model.score(answered, depth), best.log_prob)


@every_chain
@pytest.mark.parametrize("penalty", [0.6, 2])
def test_a_length_penalty(settings, penalty):
    """The answers with the most log p / ((5 + tokens) / 6)^penalty, where the end is a token; log p is as it was."""
    source = [3, 1, 2]
    model = tiny_model(**settings, target_words=2, beam=40, length_penalty=penalty)
    scores = scores_of_all(model, source, 4)
    ranks = {key: score / ((6 + len(key)) / 6) ** penalty for key, score in scores.items()}
    best = model.topk(make_batch([source], [[0]]), 8)
    found = unpadded(best.tokens, best.lengths)
    assert [ranks[key] for key in found] == pytest.approx(sorted(ranks.values(), reverse=True)[:8])
    assert best.log_prob.flatten().tolist() == pytest.approx([scores[key] for key in found])


def test_a_length_penalty_makes_answers_longer():
    lengths = [
        tiny_model(3, decoder="gru", output="mlp", beam=40, length_penalty=penalty).decode(some_batch()).lengths.sum()
        for penalty in (0, 1, 5)
    ]
    assert lengths[0] < lengths[-1]
    assert lengths == sorted(lengths)


# --- what it cannot do ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("name", ["k", "max_length"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_counts_are_checked(decoder, name, value):
    model, batch = tiny_model(decoder=decoder), some_batch()
    with pytest.raises(ValueError, match=f"^{name}: got {value}; expected a whole number, 1 or more$"):
        model.topk(batch, value) if name == "k" else model.decode(batch, max_length=value)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("depth", [-1, 21, 1.5, "2", True])
def test_depths_are_checked(decoder, depth):
    model, batch = tiny_model(decoder=decoder), some_batch()
    for method in (model.score, model.decode):
        with pytest.raises(ModelError, match=f"^depth: got {depth!r}; expected a whole number from 0 to 20$"):
            method(batch, depth=depth)


@pytest.mark.parametrize("decoder", ["gru", "lstm"])
def test_words_that_would_not_see_the_source(decoder):
    with pytest.raises(ModelError, match=r"^output: got 'linear' .*; expected mlp or lexical-attention or copy$"):
        tiny_model(decoder=decoder, output="linear")


# --- smooth labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", SEQUENTIAL)
def test_smooth_labels(decoder):
    """A share of every word is learned by all that could stand there: the end not at first, nothing else at last."""
    model = tiny_model(decoder=decoder, encoder="birnn", output="mlp", label_smoothing=0.3, depth=2)
    sources, targets = some_pairs()
    batch = make_batch(sources, targets)
    encoding, vocabulary, longest = model.encode(batch), len(model.target), 4
    expected = []
    for n, target in enumerate(targets):
        of_target = []
        for place, word in enumerate([*target, vocabulary]):
            each = [_log_prob(model, sources[n], target[:place], other) for other in range(vocabulary + 1)]
            possible = [value for value in each if value > -math.inf]
            assert len(possible) == (1 if place == longest else vocabulary if place == 0 else vocabulary + 1)
            of_target.append(0.7 * each[word] + 0.3 * sum(possible) / len(possible))
        expected.append(sum(of_target))
    found = model.decoder.objective(encoding, batch.target, batch.target_lengths)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=double))
    losses = -found / batch.target_lengths
    torch.testing.assert_close(model.losses(batch), losses)
    assert not torch.allclose(model.score(batch), found)
    losses.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


def _log_prob(model: Seq2Seq, source: list[int], before: list[int], word: int) -> float:
    """log p(word | source, words before), by the modules."""
    decoder, end = chain(model), len(model.target)
    batch = make_batch([source], [[0]])
    encoding = model.encode(batch)
    nodes, read = decoder.nodes(encoding), torch.tensor([[end, *before]])
    log_probs = decoder.log_probs(decoder.forced(encoding, read, nodes), encoding, nodes, 0, decoder.longest(None))
    return log_probs[0, -1, word].item()


def test_without_smooth_labels_the_score_is_learned():
    model = tiny_model(decoder="transformer", encoder="transformer", output="mlp")
    batch = some_batch()
    assert torch.equal(model.losses(batch), -model.score(batch) / batch.target_lengths)


# --- the same vectors for reading and saying --------------------------------------------------------------------------

TIED = ("gru", "lstm", "transformer")


@pytest.mark.parametrize("decoder", TIED)
def test_words_are_read_by_the_vectors_they_are_said_by(decoder):
    """As with a table of its own that holds the same numbers."""
    settings = {"decoder": decoder, "encoder": "birnn", "output": "mlp"}
    tied, apart = tiny_model(**settings, tied=True), tiny_model(**settings)
    weights = tied.state_dict()
    words = weights["decoder.output.words.weight"] * math.sqrt(4)
    weights["decoder.embedding.weight"] = torch.cat([words, weights["decoder.embedding.weight"]])
    apart.load_state_dict(weights)
    batch = some_batch()
    assert torch.equal(tied.score(batch), apart.score(batch))
    for one, other in zip(vars(tied.topk(batch, 3)).values(), vars(apart.topk(batch, 3)).values(), strict=True):
        assert one is other is None or torch.equal(one, other)
    assert apart.parameter_count - tied.parameter_count == 4 * len(tied.target)


def test_tied_words_learn_from_both_sides(tmp_path):
    model = tiny_model(decoder="transformer", encoder="transformer", output="mlp", tied=True)
    decoder = chain(model)
    assert isinstance(decoder, TransformerDecoder)
    assert isinstance(decoder.output, MLP)
    weight = decoder.output.words.weight
    decoder.read(torch.tensor([[1, 1, 3]])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0.0] * 4, [4.0] * 4, [0.0] * 4]  # twice, times the root of the width
    model.save_pretrained(tmp_path)
    batch = some_batch()
    assert torch.equal(Seq2Seq.from_pretrained(tmp_path).double().score(batch), model.float().double().score(batch))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"decoder": "transformer", "output": "lexical-attention", "tied": True},
            "tied: got true with the output 'lexical-attention'; expected it with 'mlp' or 'copy'$",
        ),
        ({"decoder": "production", "tied": True}, "tied: got true with the decoder 'production'; expected false"),
        ({"decoder": "ctree", "tied": True}, "tied: got true with the decoder 'ctree'; expected false"),
        (
            {"decoder": "ctree", "label_smoothing": 0.1},
            "label_smoothing: got 0.1 with the decoder 'ctree'; expected 0.0",
        ),
        ({"label_smoothing": 1.0}, "label_smoothing: got 1.0; expected a number from 0 to less than 1"),
    ],
)
def test_settings_that_are_not_for_all(settings, message):
    with pytest.raises(ModelError, match=f"^{message}"):
        tiny_model(**settings)
