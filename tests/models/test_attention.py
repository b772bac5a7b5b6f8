from dataclasses import replace

import pytest
import torch

from torch_ctree.models.attention import Attention
from torch_ctree.models.decoders import CTree
from torch_ctree.models.decoders.sequence import SequenceDecoder

from . import plain
from .build import some_batch, tiny_model

double = torch.float64
LENGTHS = [5, 1, 3]


def layer() -> Attention:
    found = tiny_model().decoder.get_submodule("attention")
    assert isinstance(found, Attention)
    return found


def mask(lengths=LENGTHS, size=5):
    return torch.arange(size) < torch.tensor(lengths)[:, None]


def test_by_hand():
    attention = layer()
    states = torch.randn(3, 2, 4, dtype=double)
    keys, values = torch.randn(2, 3, 5, 4, dtype=double)
    memory = attention.memory(keys, values, mask())
    weights, found = attention.weights(states, memory), attention(states, memory)
    for b, length in enumerate(LENGTHS):
        for q in range(2):
            shares = plain.attention(attention, states[b, q].tolist(), keys[b, :length].tolist())
            expected = plain.average(shares, values[b, :length].tolist())
            torch.testing.assert_close(weights[b, q, :length], torch.tensor(shares, dtype=double), rtol=0, atol=1e-12)
            torch.testing.assert_close(found[b, q], torch.tensor(expected, dtype=double), rtol=0, atol=1e-12)


def test_all_of_it_is_on_real_positions():
    attention = layer()
    keys = torch.randn(3, 5, 4, dtype=double)
    weights = attention.weights(100 * torch.randn(3, 7, 4, dtype=double), attention.memory(keys, keys, mask()))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 7, dtype=double))
    assert not weights[~mask()[:, None].expand_as(weights)].any()


def test_a_single_position_gets_everything():
    attention = layer()
    keys, values = torch.randn(2, 3, 5, 4, dtype=double)
    found = attention(torch.randn(3, 2, 4, dtype=double), attention.memory(keys, values, mask([1, 1, 1])))
    torch.testing.assert_close(found, values[:, :1].expand(-1, 2, -1))


@pytest.mark.parametrize("part", ["keys", "values"])
def test_what_is_not_real_gets_no_gradient(part):
    attention = layer()
    given = {name: torch.randn(3, 5, 4, dtype=double, requires_grad=True) for name in ("keys", "values")}
    attention(torch.randn(3, 2, 4, dtype=double), attention.memory(**given, mask=mask())).square().sum().backward()
    grad = given[part].grad
    assert grad is not None
    assert not grad[~mask()].any()
    assert grad[0].any()


@pytest.mark.parametrize("decoder", ["ctree", "production", "gru"])
def test_without_attention_the_context_is_the_root(decoder):
    model = tiny_model(decoder=decoder, output="mlp", context="root")
    encoding = model.encode(some_batch())
    assert isinstance(model.decoder, CTree | SequenceDecoder)
    attention = model.decoder.attention
    states = torch.randn(*encoding.root.shape[:1], 3, encoding.root.shape[1], dtype=torch.float64)
    contexts = attention(states, attention.over(encoding, "root"))
    torch.testing.assert_close(contexts, encoding.root[:, None].expand_as(contexts))
    changed = replace(encoding, internal=torch.randn_like(encoding.internal))  # nothing looks at the nodes
    batch = some_batch()
    scores = [model.decoder.score(seen, batch.target, batch.target_lengths) for seen in (encoding, changed)]
    torch.testing.assert_close(*scores)
