import math

import pytest
import torch
from torch import nn

from torch_ctree.models import ModelConfig
from torch_ctree.models.encoders.ordered_memory import Cell, OrderedMemory

from .. import plain
from ..build import padded, tiny_model

double = torch.float64
SENTENCES = [[1, 2, 3, 4, 0, 2], [4], [2, 0], [3, 3, 1]]


def encoder(**settings) -> OrderedMemory:
    built = tiny_model(encoder="ordered-memory", **settings).encoder
    assert isinstance(built, OrderedMemory)
    return built


def attention(model: OrderedMemory, query, candidates, before):
    """p_t: exp(w · relu(query + key) / √h) × what is open: slot i as far as slot i + 1 was reached; normalised."""
    score, width = model.score[2], len(query)
    assert isinstance(score, nn.Linear)
    weights = []
    for i, candidate in enumerate(candidates):
        mixed = plain.relu(plain.add(query, plain.projected(model.key, candidate)))
        (value,) = plain.linear(score, mixed)
        is_open = math.fsum(before[: i + 2]) if i + 1 < len(candidates) else 1.0
        weights.append(math.exp(value / math.sqrt(width)) * is_open)
    return [weight / math.fsum(weights) for weight in weights]


def derived(model: OrderedMemory, leaves):
    """The memory's candidates M̂ after every token, in plain numbers."""
    slots, width = model.slots, len(leaves[0])
    memory, candidates, p = [[0.0] * width] * slots, [leaves[0]] * slots, [0.0] * slots
    found = [candidates]
    for x in leaves[1:]:
        p = attention(model, plain.projected(model.query, x), candidates, p)
        up = [math.fsum(p[: i + 1]) for i in range(slots)]
        down = [math.fsum(p[i:]) for i in range(slots)]
        memory = [plain.average([1 - down[i], down[i]], [memory[i], candidates[i]]) for i in range(slots)]
        below, candidates = x, []
        for i in range(slots):
            below = plain.average([1 - up[i], up[i]], [x, plain.cell(model.cell, below, memory[i])])
            candidates.append(below)
        found.append(candidates)
    return found


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("contextualiser", ["none", "forward", "bidirectional"])
def test_by_hand(slots, contextualiser):
    model = encoder(slots=slots, contextualiser=contextualiser)
    encoding = model(*padded(SENTENCES))
    for b, sentence in enumerate(SENTENCES):
        real = slice(0, len(sentence))
        embeddings = [plain.numbers(model.embedding.weight)[token] for token in sentence]
        assert encoding.embeddings[b, real].tolist() == embeddings
        if contextualiser == "none":
            assert encoding.contextual[b, real].tolist() == embeddings
        contextual = plain.numbers(encoding.contextual[b, real])
        leaves = [plain.activation(model.activation, plain.linear(model.input, x)) for x in contextual]
        internal = derived(model, leaves)
        for found, expected in [
            (encoding.leaves[b, real], leaves),
            (encoding.internal[b, real], internal),
            (encoding.root[b], internal[-1][-1]),
        ]:
            torch.testing.assert_close(found, torch.tensor(expected, dtype=double), rtol=0, atol=1e-10)
    assert encoding.mask.sum(1).tolist() == [len(sentence) for sentence in SENTENCES]


def test_the_first_word_fills_every_slot_and_the_second_is_put_together_with_it_in_the_last():
    model = encoder(contextualiser="none")
    encoding = model(torch.tensor([[1, 2]]), torch.tensor([2]))
    x, y = encoding.leaves[0]
    torch.testing.assert_close(encoding.internal[0, 0], x.expand(3, -1))
    torch.testing.assert_close(encoding.internal[0, 1, :2], y.expand(2, -1))
    torch.testing.assert_close(
        encoding.internal[0, 1, 2], model.cell(y[None], x[None], model.cell.prepared(x[None]))[0]
    )


def test_attention_is_a_distribution_over_open_slots():
    model = encoder(slots=4)
    query, candidates = torch.randn(6, 4, dtype=double), torch.randn(6, 4, 4, dtype=double)
    before = torch.eye(4, dtype=double)[[0, 1, 2, 3]].repeat(2, 1)[:6]
    p = model.attention(query, candidates, before)
    torch.testing.assert_close(p.sum(-1), torch.ones(6, dtype=double))
    for row, used in zip(p, before.argmax(-1).tolist(), strict=True):
        lowest = max(used - 1, 0)  # a new word can start one slot below
        assert (row[:lowest] == 0).all()
        assert (row[lowest:] > 0).all()


def test_attention_survives_large_scores():
    model = encoder()
    with torch.no_grad():
        model.score[2].weight.mul_(1e4)  # pyright: ignore[reportOperatorIssue, reportCallIssue]
    p = model.attention(
        torch.randn(8, 4, dtype=double), torch.randn(8, 3, 4, dtype=double), torch.full((8, 3), 1 / 3.0)
    )
    torch.testing.assert_close(p.sum(-1), torch.ones(8, dtype=double))


def test_the_cell_by_hand():
    cell = encoder().cell
    left, right = torch.randn(2, 5, 4, dtype=double)
    found = cell(left, right, cell.prepared(right))
    for b in range(5):
        expected = plain.cell(cell, left[b].tolist(), right[b].tolist())
        torch.testing.assert_close(found[b], torch.tensor(expected, dtype=double), rtol=0, atol=1e-12)


def test_the_two_halves_of_the_cell_start_as_one_layer_would():
    """Uniform within 1/√(2h), as ``nn.Linear(2h, 4h)``; two layers of h inputs would start within 1/√h."""
    width = 64
    cell = OrderedMemory(ModelConfig(width=width), 3).cell
    assert isinstance(cell, Cell)
    for half in (cell.from_node.weight, cell.from_memory.weight):
        assert 0.99 / math.sqrt(2 * width) < half.abs().max().item() <= 1 / math.sqrt(2 * width)


def test_one_activation_serves_inputs_and_cell():
    model = encoder()
    assert model.cell.activation is model.activation
