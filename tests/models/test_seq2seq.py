import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from torch_ctree.data import DataError
from torch_ctree.models import (
    DECODERS,
    ENCODERS,
    Decoded,
    Decoder,
    Encoding,
    ModelConfig,
    ModelError,
    Seq2Seq,
    SourceEncoder,
)
from torch_ctree.trees import LatentTree

from .build import EVERYTHING, TREES, make_batch, padded, scores_of_all, some_batch, tiny_model, unpadded, words

every_model = pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)

# --- sizes ------------------------------------------------------------------------------------------------------------


def linear(inputs, outputs, bias=True):
    return inputs * outputs + bias * outputs


def gru(inputs, width):
    return 3 * (linear(inputs, width) + linear(width, width))


def projection(h):
    """A query or key: linear and layer normalisation."""
    return linear(h, h) + 2 * h


def parameters_of_the_scan_model(h, source_words, target_words):
    norm = 2 * h
    contextualiser = 2 * gru(h, h // 2)
    slot_attention = 2 * projection(h) + linear(h, 1)
    cell = linear(2 * h, 4 * h) + linear(4 * h, 4 * h)
    encoder = source_words * h + contextualiser + linear(h, h) + norm + slot_attention + cell
    production = linear(2 * h, 2 * h) + linear(2 * h, 4 * h)
    lexical = source_words * h + target_words * h
    decoder = linear(h, h) + norm + 2 * projection(h) + production + linear(2 * h, 2) + lexical
    return encoder + decoder


@pytest.mark.parametrize("width", [2, 16, 128])
@pytest.mark.parametrize("slots", [1, 5])
def test_parameters_of_the_scan_model(width, slots):
    """Neither the slots nor the depth add any."""
    config = ModelConfig(width=width, slots=slots, depth=3)
    expected = parameters_of_the_scan_model(width, 13, 6)
    assert Seq2Seq(config, words("s", 13), words("t", 6)).parameter_count == expected


def test_as_many_parameters_as_the_released_implementation():
    """It has 772,995 on SCAN: both sides have four more words, for padding and the like, the source in two tables."""
    ours = Seq2Seq(ModelConfig(depth=8), words("s", 13), words("t", 6)).parameter_count
    theirs = Seq2Seq(ModelConfig(depth=8), words("s", 13 + 4), words("t", 6 + 4)).parameter_count
    assert (ours, theirs) == (771_459, 772_995)
    assert theirs - ours == 4 * 3 * 128


@pytest.mark.parametrize("layers", [1, 5])
@pytest.mark.parametrize("decoder_layers", [1, 3])
def test_parameters_of_the_recurrent_models(layers, decoder_layers):
    h, S, T = 16, 7, 5
    encoder = S * h + layers * 2 * gru(h, h // 2) + linear(layers * h, h)
    mlp = linear(2 * h, h) + 2 * h + linear(h, T)
    around = (T + 1) * h + 2 * projection(h) + mlp + linear(2 * h, 2) + linear(h, decoder_layers * h)
    for decoder, recurrence in (("gru", gru(h, h)), ("lstm", gru(h, h) // 3 * 4)):
        config = ModelConfig("birnn", decoder, "mlp", width=h, layers=layers, decoder_layers=decoder_layers, depth=3)
        expected = encoder + around + decoder_layers * recurrence
        assert Seq2Seq(config, words("s", S), words("t", T)).parameter_count == expected


# --- text -------------------------------------------------------------------------------------------------------------


def test_texts_as_a_batch():
    batch = tiny_model().batch(["s1 s2 s3", "s4"], ["t2", "t0 t1"])
    expected = make_batch([[1, 2, 3], [4]], [[2], [0, 1]])
    for name in ("source", "source_lengths", "target", "target_lengths", "rows"):
        assert torch.equal(getattr(batch, name), getattr(expected, name))
    without = tiny_model().batch(["s1 s2 s3", "s4"])
    assert torch.equal(without.source, expected.source)
    assert without.target_lengths.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ("s1 s2", None, "sources: got the string 's1 s2'; expected several strings"),
        (["s1"], "t1", "targets: got the string 't1'; expected several strings"),
        ([], None, "sources: got none; expected at least one text"),
        (["s1", "s2"], ["t1"], "targets: got 1; expected 2, one for each source"),
        (["s1"], ["t1", "t2"], "targets: got 2; expected 1, one for each source"),
        (["s1", "s9"], None, "source 2: 's9': 's9' is not in the vocabulary of 5 words"),
        (["s1", ""], None, "source 2: '' has no word in it"),
        (["s1"], ["s1"], "target 1: 's1': 's1' is not in the vocabulary of 3 words"),
    ],
)
def test_bad_texts(sources, targets, message):
    with pytest.raises((ModelError, DataError)) as caught:
        tiny_model().batch(sources, targets)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@every_model
def test_answers(settings):
    model = tiny_model(**settings)
    answers = model.answer("s3 s1 s2", 4)
    best = model.topk(make_batch([[3, 1, 2]], [[0]]), 4)
    assert [answer.log_prob for answer in answers] == pytest.approx(best.log_prob.flatten().tolist())
    for answer, tokens in zip(answers, unpadded(best.tokens, best.lengths), strict=True):
        assert answer.text == " ".join(f"t{token}" for token in tokens)
        assert (answer.tree is None) == (settings["decoder"] not in TREES)
        if answer.tree is not None:
            assert answer.tree.leaves() == answer.text.split()
    first = model.answer("s3 s1 s2")
    assert len(first) == 1
    assert first[0].log_prob <= answers[0].log_prob + 1e-12  # a wider search finds no worse one


SEVERAL = {name: settings for name, settings in EVERYTHING.items() if settings["decoder"] != "lanmt"}
"""``lanmt`` has one answer of each length."""


@pytest.mark.parametrize("settings", SEVERAL.values(), ids=SEVERAL)
def test_fewer_answers_where_there_are_not_so_many(settings):
    """Two words, and trees of a single leaf."""
    answers = tiny_model(**settings, target_words=2).answer("s1 s2", 5, depth=0)
    assert {answer.text for answer in answers} == {"t0", "t1"}
    if settings["decoder"] != "grammar":  # whose probabilities know no depth
        assert math.fsum(math.exp(answer.log_prob) for answer in answers) == pytest.approx(1)


def test_one_of_many_answers():
    model, batch = tiny_model(), some_batch()
    best, several = model.decode(batch), model.topk(batch, 2)
    for b in range(4):
        assert model.spelled(best, b) == model.spelled(several, (0, b))


def test_trees_of_a_target():
    model = tiny_model()
    posterior = model.parse("s3 s1", "t0 t2 t1")
    assert [tree.leaves() for tree in posterior.argmax().trees(model.target.__getitem__)] == [["t0", "t2", "t1"]]
    dist = model.distribution(make_batch([[3, 1]], [[0]]))
    assert isinstance(dist, LatentTree)
    best = posterior.argmax()
    both = dist.joint_log_prob(best) - dist.log_prob(*padded([[0, 2, 1]]))
    torch.testing.assert_close(best.log_prob, both)
    five = "t0 t1 t2 t0 t1"  # too many for depth 2
    (tree,) = model.parse("s3", five, depth=3).argmax().trees(model.target.__getitem__)
    assert tree.leaves() == five.split()


@pytest.mark.parametrize("decoder", ["production", "gru", "lstm", "lanmt"])
def test_no_trees_without_a_tree_decoder(decoder):
    model = tiny_model(decoder=decoder)
    for call in (lambda: model.distribution(some_batch()), lambda: model.parse("s1", "t1")):
        with pytest.raises(
            ModelError,
            match=f"^the decoder '{decoder}' has no trees; expected a model with decoder 'ctree' or 'grammar'$",
        ):
            call()


# --- randomness -------------------------------------------------------------------------------------------------------


@every_model
def test_evaluation_has_no_dropout_and_training_has(settings):
    model, batch = tiny_model(**settings), some_batch()
    assert torch.equal(model.score(batch), model.score(batch))
    model.train()
    assert not torch.equal(model.score(batch), model.score(batch))


@every_model
def test_the_same_seed_makes_the_same_model(settings):
    def made(seed):
        torch.manual_seed(seed)
        config = ModelConfig(**settings, width=4, depth=2)
        model = Seq2Seq(config, words("s", 5), words("t", 3))
        return torch.cat([parameter.flatten() for parameter in model.parameters()]), model.loss(some_batch())

    (weights, loss), (again, loss_again), (others, _) = made(1), made(1), made(2)
    assert torch.equal(weights, again)
    assert torch.equal(loss, loss_again)
    assert not torch.equal(weights, others)


# --- parts of your own ------------------------------------------------------------------------------------------------


class BagOfWords(SourceEncoder):
    """The mean of the words, ``options['times']`` times."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.times = config.options["times"]

    def forward(self, tokens: Tensor, lengths: Tensor) -> Encoding:
        mask = torch.arange(tokens.shape[1]) < lengths[:, None]
        x = self.embedding(tokens)
        root = self.times * (x * mask[..., None]).sum(1) / lengths[:, None]
        return Encoding(root, x[:, :, None], x, x, x, tokens, mask)


class Unigrams(Decoder):
    """Sentences of one word, whatever the source."""

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(words))

    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        return torch.where(lengths == 1, self.logits.log_softmax(-1)[tokens[:, 0]], -math.inf)

    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        best, tokens = self.logits.detach().log_softmax(-1).topk(k)
        B = len(encoding.root)
        return Decoded(tokens[:, None, None].expand(-1, B, 1), torch.ones(k, B).long(), best[:, None].expand(-1, B))


@pytest.mark.parametrize("decoder", ["ctree", "production", "gru", "lstm"])
@pytest.mark.parametrize("output", ["mlp", "lexical-attention", "copy"])
def test_an_encoder_of_your_own(monkeypatch, decoder, output):
    monkeypatch.setitem(ENCODERS, "bag", BagOfWords)
    settings = {"encoder": "bag", "decoder": decoder, "output": output}
    model, batch = tiny_model(**settings, options={"times": 2.0}), some_batch()
    assert isinstance(model.encoder, BagOfWords)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    before = model.loss(batch)
    before.backward()
    assert model.encoder.embedding.weight.grad is not None
    optimizer.step()
    assert model.loss(batch) < before
    other = tiny_model(**settings, options={"times": 3.0})
    assert not torch.equal(other.score(batch), tiny_model(**settings, options={"times": 2.0}).score(batch))
    scores = scores_of_all(model, [3, 0, 4], 4)
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)


def test_a_decoder_of_your_own(monkeypatch):
    monkeypatch.setitem(DECODERS, "unigrams", Unigrams)
    model = tiny_model(decoder="unigrams")
    scores = scores_of_all(model, [1, 2], 4)
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)
    answers = model.answer("s1", 3)
    assert answers[0].text == f"t{max(range(3), key=lambda word: scores[word,])}"
    assert sorted(answer.text for answer in answers) == ["t0", "t1", "t2"]
    assert answers[0].tree is None


def test_a_new_name_is_suggested_too(monkeypatch):
    monkeypatch.setitem(ENCODERS, "bag-of-words", BagOfWords)
    with pytest.raises(ModelError, match="did you mean 'bag-of-words'"):
        tiny_model(encoder="bag-of-word")


def test_the_names_of_parts():
    assert list(itertools.product(ENCODERS, DECODERS)) == [
        (encoder, decoder)
        for encoder in ("ordered-memory", "birnn", "spans", "transformer")
        for decoder in ("ctree", "grammar", "production", "gru", "lstm", "transformer", "lanmt")
    ]
