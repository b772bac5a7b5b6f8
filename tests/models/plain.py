"""The layers of the models in plain Python numbers: what tests derive formulas with. No tensor operations here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Attention
from torch_ctree.models.encoders.ordered_memory import Cell
from torch_ctree.models.production import Production

Vector = list[float]


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
    parameters = zip(x, numbers(layer.weight), numbers(layer.bias), strict=True)
    return [(value - mean) / math.sqrt(variance + layer.eps) * gain + bias for value, gain, bias in parameters]


def activation(layer: Activation, x: Sequence[float]) -> Vector:
    return [math.tanh(value) for value in layernorm(layer.norm, x)]


def relu(x: Sequence[float]) -> Vector:
    return [max(0.0, value) for value in x]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


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
    weights = [a + b for a, b in zip(numbers(layer.left.weight), numbers(layer.right.weight), strict=True)]
    hidden = relu(add([dot(row, left + right) for row in weights], numbers(layer.left.bias)))
    out = linear(layer.out, hidden)
    new = activation(layer.activation, out[3 * width :])
    result = []
    for i in range(width):
        gates = softmax([out[i], out[width + i], out[2 * width + i]])
        result.append(dot(gates, [left[i], right[i], new[i]]))
    return result
