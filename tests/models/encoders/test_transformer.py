import pytest
import torch
from torch import nn

from torch_ctree.models.encoders.transformer import Transformer
from torch_ctree.models.transformer import Heads, Layer, positions

from .. import plain
from ..build import padded, tiny_model

double = torch.float64
SENTENCES = [[1, 2, 3, 4, 0], [4], [2, 0], [3, 3, 1]]


@pytest.mark.parametrize("layers", [1, 3])
def test_by_hand(layers):
    """All words see one another; the root is the mean."""
    model = tiny_model(encoder="transformer", layers=layers, heads=2).encoder
    assert isinstance(model, Transformer)
    encoding, table = model(*padded(SENTENCES)), plain.numbers(model.embedding.weight)
    for b, sentence in enumerate(SENTENCES):
        xs = [plain.add(table[word], plain.wave(n, 4)) for n, word in enumerate(sentence)]
        for layer in model.layers:
            assert isinstance(layer, Layer)
            xs = plain.transformer(layer, xs)
        expected = torch.tensor([plain.layernorm(model.norm, x) for x in xs], dtype=double)
        for given in (encoding.leaves, encoding.contextual, encoding.internal[:, :, 0]):
            torch.testing.assert_close(given[b, : len(sentence)], expected)
        torch.testing.assert_close(encoding.root[b], expected.mean(0))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_layers_are_those_of_torch(heads):
    model = tiny_model(encoder="transformer", decoder="transformer", width=8, heads=heads)
    layer, source, xs = (
        model.decoder.get_submodule("layers.0"),
        torch.randn(2, 5, 8, dtype=double),
        torch.randn(2, 3, 8),
    )
    xs = xs.double()
    assert isinstance(layer, Layer)
    assert layer.source is not None
    assert layer.source_norm is not None
    theirs = nn.TransformerDecoderLayer(8, heads, 32, norm_first=True, batch_first=True, dtype=double).eval()
    pairs = [(theirs.self_attn, layer.itself), (theirs.multihead_attn, layer.source)]
    norms = [(theirs.norm1, layer.norm), (theirs.norm2, layer.source_norm), (theirs.norm3, layer.inner[0])]
    with torch.no_grad():
        for attention, own in pairs:
            attention.in_proj_weight.copy_(torch.cat([own.query.weight, own.key_value.weight]))
            assert attention.in_proj_bias is not None
            attention.in_proj_bias.copy_(torch.cat([own.query.bias, own.key_value.bias]))
            attention.out_proj.load_state_dict(own.out.state_dict())
        for norm, own in [*norms, (theirs.linear1, layer.inner[1]), (theirs.linear2, layer.inner[4])]:
            norm.load_state_dict(own.state_dict())
        hidden = ~torch.ones(3, 3, dtype=torch.bool).tril()
        expected = theirs(xs, source, tgt_mask=hidden)
        seen = (layer.source.keys_and_values(source), torch.ones(2, 1, 5, dtype=torch.bool))
        found, kept = layer(xs, xs.new_empty(2, 0, 16), ~hidden[None], seen)
        torch.testing.assert_close(found, expected)
        _, first = layer(xs[:, :2], xs.new_empty(2, 0, 16), ~hidden[None, :2, :2], seen)
        last, again = layer(xs[:, 2:], first, None, seen)
    torch.testing.assert_close(last, expected[:, 2:])
    torch.testing.assert_close(again, kept)


def test_positions():
    found = positions(3, 4, torch.empty(1, 8, dtype=double))
    torch.testing.assert_close(found, torch.tensor([plain.wave(n, 8) for n in range(3, 7)], dtype=double))
    assert positions(0, 2, torch.empty(1, 2)).tolist() == [[0, 1], pytest.approx([0.8414710, 0.5403023])]


def test_attention_is_dropped_in_training_only():
    heads, x = Heads(8, 2, 0.5), torch.randn(3, 4, 8)
    kept = heads.keys_and_values(x)
    assert not torch.equal(heads(x, kept, None), heads(x, kept, None))
    heads.eval()
    assert torch.equal(heads(x, kept, None), heads(x, kept, None))
