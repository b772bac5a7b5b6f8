"""The layers of the models in plain Python numbers: what tests derive formulas with. No tensor operations here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

from torch import Tensor, nn

from torch_ctree.models import Encoding
from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Attention
from torch_ctree.models.encoders.ordered_memory import Cell
from torch_ctree.models.output import MLP, Copy, LexicalAttention, Linear, Output
from torch_ctree.models.production import Production
from torch_ctree.models.transformer import Heads, Layer

Vector = list[float]


class Source(NamedTuple):
    """One sentence of an encoding, without padding."""

    root: Vector
    nodes: list[Vector]
    leaves: list[Vector]
    tokens: list[int]


def source(encoding: Encoding, b: int) -> Source:
    length = int(encoding.mask[b].sum())
    nodes = numbers(encoding.nodes[b, encoding.nodes_mask[b]])
    return Source(
        numbers(encoding.root[b]), nodes, numbers(encoding.leaves[b, :length]), numbers(encoding.tokens[b, :length])
    )


def numbers(tensor: Tensor) -> list:
    return tensor.detach().tolist()


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def add(*vectors: Sequence[float]) -> Vector:
    return [math.fsum(parts) for parts in zip(*vectors, strict=True)]


def scaled(share: float, vector: Sequence[float]) -> Vector:
    return [share * x for x in vector]


def average(shares: Sequence[float], vectors: Sequence[Sequence[float]]) -> Vector:
    """Σ share · vector"""
    return add(*(scaled(share, vector) for share, vector in zip(shares, vectors, strict=True)))


def linear(layer: nn.Linear, x: Sequence[float]) -> Vector:
    product = [dot(row, x) for row in numbers(layer.weight)]
    return product if layer.bias is None else add(product, numbers(layer.bias))


def layernorm(layer: nn.LayerNorm, x: Sequence[float]) -> Vector:
    mean = math.fsum(x) / len(x)
    variance = math.fsum((value - mean) ** 2 for value in x) / len(x)
    normal = [(value - mean) / math.sqrt(variance + layer.eps) for value in x]
    if not layer.elementwise_affine:
        return normal
    parameters = zip(normal, numbers(layer.weight), numbers(layer.bias), strict=True)
    return [value * gain + bias for value, gain, bias in parameters]


def activation(layer: Activation, x: Sequence[float]) -> Vector:
    return tanh(layernorm(layer.norm, x))


def relu(x: Sequence[float]) -> Vector:
    return [max(0.0, value) for value in x]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def tanh(x: Sequence[float]) -> Vector:
    return [math.tanh(value) for value in x]


def log_softmax(x: Sequence[float]) -> Vector:
    total = math.log(math.fsum(math.exp(value) for value in x))
    return [value - total for value in x]


def softmax(x: Sequence[float]) -> Vector:
    total = math.fsum(math.exp(value) for value in x)
    return [math.exp(value) / total for value in x]


def projected(layers: nn.Module, x: Sequence[float]) -> Vector:
    """Of a query or key: (dropout,) linear, layer normalisation."""
    _, first, second = cast(nn.Sequential, layers)
    return layernorm(cast(nn.LayerNorm, second), linear(cast(nn.Linear, first), x))


def attention(layer: Attention, state: Sequence[float], keys: list[Vector]) -> Vector:
    """softmax(q · k / √h) of each key."""
    query = projected(layer.query, state)
    return softmax([dot(query, projected(layer.key, key)) / math.sqrt(len(state)) for key in keys])


def production(layer: Production, state: Vector, context: Vector) -> tuple[Vector, Vector]:
    """§4.1: the states of the left and of the right child."""
    width = len(state)
    hidden = relu(linear(layer.first, state + context))
    out = linear(layer.second, hidden)
    gates = [[sigmoid(x) for x in out[n * width : (n + 1) * width]] for n in (0, 1)]
    candidates = [activation(layer.activation, out[n * width : (n + 1) * width]) for n in (2, 3)]
    left, right = (
        [g * c + (1 - g) * h for g, c, h in zip(gate, candidate, state, strict=True)]
        for gate, candidate in zip(gates, candidates, strict=True)
    )
    return left, right


def cell(layer: Cell, left: Vector, right: Vector) -> Vector:
    """Ordered Memory's: g₁ ⊙ left + g₂ ⊙ right + g₃ ⊙ tanh(layernorm(new)), gates a softmax per unit."""
    width = len(left)
    # One linear layer over [left; right], though it is kept in two halves.
    weights = [a + b for a, b in zip(numbers(layer.from_node.weight), numbers(layer.from_memory.weight), strict=True)]
    hidden = relu(add([dot(row, left + right) for row in weights], numbers(layer.from_node.bias)))
    out = linear(layer.out, hidden)
    new = activation(layer.activation, out[3 * width :])
    result = []
    for i in range(width):
        gates = softmax([out[i], out[width + i], out[2 * width + i]])
        result.append(dot(gates, [left[i], right[i], new[i]]))
    return result


def heads(layer: Heads, x: Vector, seen: list[Vector]) -> Vector:
    """Attention of x over what it sees, a softmax for each part of the width."""
    width, part = len(x), len(x) // layer.heads
    query, kept = linear(layer.query, x), [linear(layer.key_value, one) for one in seen]
    found = []
    for start in range(0, width, part):
        scores = [dot(query[start : start + part], one[start : start + part]) / math.sqrt(part) for one in kept]
        found += average(softmax(scores), [one[width + start : width + start + part] for one in kept])
    return linear(layer.out, found)


def transformer(
    layer: Layer, xs: list[Vector], source: list[Vector] | None = None, sees_all: bool = False
) -> list[Vector]:
    """One layer: without a source every place sees all others, with one only those before it, unless it sees all."""
    normed = [layernorm(layer.norm, x) for x in xs]
    found = []
    for n, normal in enumerate(normed):
        x = add(xs[n], heads(layer.itself, normal, normed if source is None or sees_all else normed[: n + 1]))
        if source is not None:
            assert layer.source is not None
            assert layer.source_norm is not None
            x = add(x, heads(layer.source, layernorm(layer.source_norm, x), source))
        norm, first, _, _, second = layer.inner
        inner = relu(linear(cast(nn.Linear, first), layernorm(cast(nn.LayerNorm, norm), x)))
        found.append(add(x, linear(cast(nn.Linear, second), inner)))
    return found


def wave(place: int, width: int) -> Vector:
    """A position: sines, then cosines, their wavelengths in geometric progression."""
    half = width // 2
    angles = [place / 10_000 ** (n / max(half - 1, 1)) for n in range(half)]
    return [*map(math.sin, angles), *map(math.cos, angles)]


def context(layer: Attention, state: Vector, nodes: list[Vector]) -> Vector:
    """What a state attends to among the nodes of the source."""
    return average(attention(layer, state, nodes), nodes)


def word_logits(output: Output, state: Vector, context: Vector, source: Source) -> Vector:
    if isinstance(output, MLP):
        _, first, second, _ = output.hidden
        hidden = activation(cast(Activation, second), linear(cast(nn.Linear, first), state + context))
        said = linear(output.words, hidden)
        return said if not isinstance(output, Copy) else mixed(output, said, hidden, state, source)
    if isinstance(output, Linear):
        return [dot(word, state) for word in numbers(output.words)]
    assert isinstance(output, LexicalAttention)
    table = numbers(output.source.weight)
    values = [activation(output.activation, table[token]) for token in source.tokens]
    attended = average(attention(output.attention, state, source.leaves), values)
    return [dot(activation(output.activation, word), attended) for word in numbers(output.words)]


def mixed(output: Copy, said: Vector, hidden: Vector, state: Vector, source: Source) -> Vector:
    """log((1 − c) · softmax(said) + c · attention), over the words that can be copied."""
    looks = attention(output.attention, state, source.leaves)
    copies = [int(output.copies[token]) for token in source.tokens]
    (gate,) = linear(output.gate, hidden)
    whole = math.fsum(look for look, word in zip(looks, copies, strict=True) if word >= 0)
    c = sigmoid(gate) if whole else 0.0
    probabilities = [(1 - c) * p for p in softmax(said)]
    for look, word in zip(looks, copies, strict=True):
        if word >= 0:
            probabilities[word] += c * look / whole
    return [math.log(p) for p in probabilities]


def gates(layer: nn.GRU | nn.LSTM, x: Vector, h: Vector, n: int) -> tuple[list[Vector], list[Vector]]:
    """W x + b and U h + c of layer n, each gate by itself."""
    names = [f"{kind}_{which}_l{n}" for kind in ("weight", "bias") for which in ("ih", "hh")]
    w, u, b, c = (numbers(layer.get_parameter(name)) for name in names)
    of_x, of_h = add([dot(row, x) for row in w], b), add([dot(row, h) for row in u], c)
    return tuple([part[i : i + len(h)] for i in range(0, len(part), len(h))] for part in (of_x, of_h))  # type: ignore


def gru(layer: nn.GRU, x: Vector, h: Vector, n: int) -> Vector:
    """One step of layer n."""
    (xr, xz, xn), (hr, hz, hn) = gates(layer, x, h, n)
    result = []
    for i, before in enumerate(h):
        r, z = sigmoid(xr[i] + hr[i]), sigmoid(xz[i] + hz[i])
        result.append((1 - z) * math.tanh(xn[i] + r * hn[i]) + z * before)
    return result


def lstm(layer: nn.LSTM, x: Vector, h: Vector, c: Vector, n: int) -> tuple[Vector, Vector]:
    """One step of layer n → state and cell."""
    i, f, g, o = (add(of_x, of_h) for of_x, of_h in zip(*gates(layer, x, h, n), strict=True))
    cells = [sigmoid(f[j]) * c[j] + sigmoid(i[j]) * math.tanh(g[j]) for j in range(len(c))]
    return [sigmoid(o[j]) * math.tanh(cells[j]) for j in range(len(c))], cells
