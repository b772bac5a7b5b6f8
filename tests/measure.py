"""What several tests measure or build."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def chi_square_p_value(observed: Iterable[Hashable], expected: Mapping[Any, float]) -> float:
    """The probability of frequencies at least this far from the expected ones. Rare outcomes are counted together."""
    counts = Counter(observed)
    assert counts.keys() <= expected.keys(), "an outcome of probability zero was drawn"
    total = counts.total()
    common = [outcome for outcome, p in expected.items() if p * total >= 5]
    pairs = [(counts[outcome], expected[outcome] * total) for outcome in common]
    rest = total - sum(count for count, _ in pairs), total - sum(mean for _, mean in pairs)
    if rest[1] > 1e-6 * total:
        pairs.append(rest)
    statistic = sum((count - mean) ** 2 / mean for count, mean in pairs)
    freedom = len(pairs) - 1
    assert freedom > 0
    return torch.special.gammaincc(torch.tensor(freedom / 2.0), torch.tensor(statistic / 2)).item()


def padded(trees: Iterable[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """Trees as tuples of leaves → vertices (trees, N), padded with −1, and lengths (trees,)."""
    rows = list(trees)
    width = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows]), torch.tensor([len(row) for row in rows])


def all_states(logits: Tensor, operator_logits: Tensor) -> Tensor:
    """A grammar's transitions (B, Q, P + O − A), as log-probabilities with a column for every state: (B, Q, Q)."""
    B, Q, columns = logits.shape
    _, places, operators = operator_logits.shape
    stays = columns - places
    move, choice = logits.log_softmax(-1), operator_logits.log_softmax(-1)
    whole = logits.new_full((B, Q, Q), -torch.inf)
    for s, t in itertools.product(range(Q), range(Q)):
        place, operator = divmod(t, operators)
        if place != s // operators or operators == 1:
            whole[:, s, t] = move[:, s, place] + choice[:, place, operator]
        elif operator >= operators - stays:
            whole[:, s, t] = move[:, s, columns - operators + operator]
    return whole


def leaves(vertices: Tensor) -> list[tuple[int, ...]]:
    """(…, N) padded with −1 → tuples."""
    return [tuple(v for v in row if v >= 0) for row in vertices.reshape(-1, vertices.shape[-1]).tolist()]


class Recorder(TorchDispatchMode):
    """Notes the size of every tensor that an operation makes."""

    def __init__(self):
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        outputs = out if isinstance(out, (list, tuple)) else [out]
        self.sizes += [tensor.numel() for tensor in outputs if isinstance(tensor, torch.Tensor)]
        return out


class Operations(TorchDispatchMode):
    """Notes the name of every operation."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))
