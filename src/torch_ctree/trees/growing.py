"""Derivations of a grammar, grown from their roots down."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ctree.trees.cells import Transitions
from torch_ctree.trees.topology import longest

DEEPEST = 62
"""The deepest level whose heap numbers fit 64 bits."""


def grow(form: Tensor, levels: int, choose: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """Derive from the roots down, level by level, all sentences at once.

    form: (F, 2 + C), the vertices of all sentences from left to right; a row has the sentence, the heap number, and
        what ``choose`` reads.
    choose: rows (W, 2 + C) of vertices of one level → which of them split, bool (W,), and of those that do the children
        (S, 2, C)
    → the leaves, (F', 2 + C)
    """
    side = torch.arange(2, device=form.device)
    fresh = torch.ones(len(form), dtype=torch.bool, device=form.device)
    for _ in range(levels):
        where = fresh.nonzero()[:, 0]
        if len(where) == 0:
            break
        split, children = choose(form[where])
        parents = where[split]
        copies = torch.ones_like(form[:, 0]).index_fill(0, parents, 2)
        places = (copies.cumsum(0) - copies)[parents, None] + side  # (S, 2)
        sentences = form[parents, :1].expand(-1, 2)
        vertices = 2 * form[parents, 1:2] + 1 + side
        form = form.repeat_interleave(copies, dim=0)
        form[places] = torch.cat([torch.stack([sentences, vertices], dim=-1), children], dim=-1)
        fresh = torch.zeros(len(form), dtype=torch.bool, device=form.device).index_fill(0, places.flatten(), True)
    return form


def roots(*columns: Tensor, possible: Tensor) -> Tensor:
    """The first form of ``grow``, for one derivation of each possible sentence: columns (B,) each → (B', 2 + C)."""
    sentence = torch.arange(len(possible), device=possible.device)
    return torch.stack([sentence, torch.zeros_like(sentence), *columns], dim=-1)[possible]


def padded(form: Tensor, sentences: int, width: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Leaves (F, 3 + …) → vertices and the next column (sentences, N), past the end −1 and 0, and lengths."""
    lengths = torch.bincount(form[:, 0], minlength=sentences)
    N = longest(lengths) if width is None else width
    column = torch.arange(len(form), device=form.device) - (lengths.cumsum(0) - lengths)[form[:, 0]]
    vertices, states = form.new_full((sentences, N), -1), form.new_zeros(sentences, N)
    vertices[form[:, 0], column] = form[:, 1]
    states[form[:, 0], column] = form[:, 2]
    return vertices, states, lengths


def best_root(root: Tensor, log_choice: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Of states' values (B, n, Q), the best at the root's place (B,) and its state: (B, n) each."""
    at_root, operators = root[:, None, None], log_choice.shape[2]
    states = at_root * operators + torch.arange(operators, device=root.device)
    here = values.gather(2, states.expand(-1, values.shape[1], -1))
    best, operator = (here + log_choice.gather(1, at_root.expand(-1, -1, operators))).max(-1)
    return best, at_root[..., 0] * operators + operator


def best_child_of(side: Transitions, sentence: Tensor, state: Tensor, values: Tensor) -> Tensor:
    """Of sentences and states (F,), with children's values (F, Q), the best child: (F,)."""
    places, operators = side.places, side.operators
    rows = side.values[sentence, state]  # (F, W)
    arrived, operator = (side.by_place(values) + side.choice[sentence]).max(-1)  # (F, P)
    own = (state // operators * operators)[:, None] + torch.arange(side.arriving, operators, device=state.device)
    children = torch.cat([torch.arange(places, device=state.device) * operators + operator, own], dim=-1)  # (F, W)
    column = (rows + torch.cat([arrived, values.gather(1, own)], dim=-1)).argmax(-1, keepdim=True)
    return children.gather(1, column)[:, 0]
