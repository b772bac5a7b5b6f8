"""Every part of every configuration, with the dimensions and dtypes that shapes.py states."""

import pytest
import torch
from jaxtyping import TypeCheckError

from torch_ctree.models.decoders import CTree
from torch_ctree.models.output import Output

from . import shapes
from .build import (
    ENCODERS,
    EVERYTHING,
    OUTPUTS,
    TARGET_WORDS,
    TREES,
    WITH_OUTPUT,
    make_batch,
    padded,
    some_batch,
    tiny_model,
)

FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@FLOATS
@pytest.mark.parametrize("settings", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("sources", [[[1]], [[1, 2, 3], [4]], [[0, 1], [2, 3], [4, 0], [1]]], ids=len)
def test_encoders(settings, sources, dtype):
    model = tiny_model(**settings, width=6, slots=2, heads=3).to(dtype)
    M = {"birnn": 1, "transformer": 1, "spans": max(map(len, sources))}.get(settings["encoder"], 2)
    found = shapes.encode(model.encoder, *padded(sources), M, 6)
    assert {part.dtype for part in found if part.is_floating_point()} == {dtype}


@FLOATS
@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_models(settings, dtype):
    model, batch = tiny_model(**settings).to(dtype), some_batch()
    encoding = model.encode(batch)
    shapes.score(model, batch.source, batch.target, batch.target_lengths, encoding)
    assert shapes.losses(model, batch, batch.source)[0].dtype == dtype
    tree = settings["decoder"] in TREES
    for answers in (shapes.decode(model, batch, batch.source), shapes.topk(model, batch, batch.source, 3)):
        assert (answers[3] is not None) == tree
        assert answers[2].dtype == dtype
        assert not answers[2].requires_grad


@pytest.mark.parametrize("settings", WITH_OUTPUT.values(), ids=WITH_OUTPUT)
def test_output_layers(settings):
    model = tiny_model(**settings)
    encoding = model.encode(some_batch())
    states, contexts = torch.randn(2, 4, 7, 4, dtype=torch.float64)
    output = model.decoder.get_submodule("output")
    assert isinstance(output, Output)
    assert output.vocabulary == TARGET_WORDS
    found = shapes.output_scores(output, states, contexts, encoding, TARGET_WORDS)
    if settings["output"] == "copy":  # what is generated is not all that can be said
        assert found[3].logsumexp(-1).abs().max() < 1e-12
    else:
        torch.testing.assert_close(found[3], torch.nn.functional.linear(*found[:3]))
    assert (found[2] is None) == (settings["output"] not in ("mlp", "copy"))
    if not output.needs_contexts:
        without = shapes.output_scores(output, states, None, encoding, TARGET_WORDS)
        assert torch.equal(without[3], found[3])


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("settings", ENCODERS.values(), ids=ENCODERS)
def test_expansions(settings, output, depth):
    model = tiny_model(**settings, output=output)
    assert isinstance(model.decoder, CTree)
    encoding = model.encode(some_batch())
    contexts = shapes.expand(model.decoder, encoding.root, encoding, depth)[1]
    assert (contexts is not None) == (output in ("mlp", "copy"))


def test_attention_and_production():
    decoder = tiny_model(width=6).decoder
    assert isinstance(decoder, CTree)
    for B, Q, P in [(1, 1, 1), (2, 3, 5), (3, 5, 2)]:
        states, keys, values = torch.randn(B, Q, 6), torch.randn(B, P, 6), torch.randn(B, P, 6)
        shapes.attend(decoder.attention.float(), states, keys, values, torch.ones(B, P, dtype=torch.bool))
        for batch in [(), (B,), (B, Q)]:
            shapes.produce(decoder.production.float(), torch.randn(*batch, 6), torch.randn(*batch, 6))


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_one_word_each_way(settings):
    sizes = {"source_words": 1, "target_words": 1, "depth": 0, "operators": 1}
    model, batch = tiny_model(**settings, **sizes), make_batch([[0]], [[0]])
    shapes.losses(model, batch, batch.source)
    tokens, lengths, log_prob, _ = shapes.decode(model, batch, batch.source)
    assert (tokens.tolist(), lengths.tolist()) == ([[0]], [1])
    if settings["decoder"] == "grammar":  # whose probabilities know no depth
        assert 0 > log_prob.item() == pytest.approx(model.score(batch).item())
    else:
        assert log_prob.tolist() == [0.0]


def test_the_shapes_are_really_checked():
    encoder = tiny_model().encoder
    tokens, lengths = padded([[1, 2], [3]])
    for bad in [
        (tokens, lengths[:1], 3, 4),
        (tokens.double(), lengths, 3, 4),
        (tokens, lengths, 2, 4),
        (tokens, lengths, 3, 5),
    ]:
        with pytest.raises((TypeCheckError, RuntimeError)):
            shapes.encode(encoder, *bad)
