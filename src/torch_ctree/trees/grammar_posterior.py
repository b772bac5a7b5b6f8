"""Trees given the sentence and a grammar: latent parsing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_ctree.trees.cells import (
    Transitions,
    as_parts,
    exponential,
    first_cell,
    logarithm,
    parts_of,
    root_of,
    scaled,
)
from torch_ctree.trees.charts import best_chart, evidence, inside, inside_log_prob, outside
from torch_ctree.trees.checks import check_integers
from torch_ctree.trees.derivation import Derivation
from torch_ctree.trees.growing import DEEPEST, best_child_of, best_root, grow, padded, roots

Trace = Callable[[Tensor], tuple[Tensor, Tensor]]
"""As ``grow`` takes it."""


class GrammarPosterior:
    """p(tree, states | x): the distribution of a sentence's derivation. Made by ``LatentGrammar.posterior``.

    leaves: (B, N, Q), log leaf(s) + log emit(s, x_i)
    log_split: (B, Q)
    left, right: logits
    root: places (B,)
    tokens: (B, N)
    lengths: (B,)

    A sentence of probability zero has no posterior: its marginals are 0, its tree is absent (vertices −1, ``log_prob``
    −inf).
    """

    tokens: Tensor
    """(B, N)"""
    lengths: Tensor
    """(B,)"""

    def __init__(
        self,
        leaves: Tensor,
        log_split: Tensor,
        left: Transitions,
        right: Transitions,
        root: Tensor,
        tokens: Tensor,
        lengths: Tensor,
    ):
        self._leaves, self._log_split, self._logits, self._root = leaves, log_split, (left, right), root
        self.tokens, self.lengths = tokens, lengths

    def log_evidence(self) -> Tensor:
        """(B,): log p(x). Differentiable."""
        return inside_log_prob(self._leaves, self._log_split, *self._logits, self._root, self.lengths)

    def span_marginals(self) -> Tensor:
        """(B, N, N): the probability that the tokens from the first index to the second, included, are a constituent.

        Single tokens and the whole sentence are, for certain. Not differentiable.
        """
        return self._marginals()[0]

    def argmax(self) -> Derivation:
        """The sentence's best tree with states (B, …), and log p(tree, states | x)."""
        N = self.tokens.shape[1]
        with torch.no_grad():
            left, right = (side.log_softmax() for side in self._logits)
            chart = best_chart(self._leaves, self._log_split, left, right)
            sentence = torch.arange(len(self.lengths), device=self.lengths.device)
            whole = chart[0][sentence, first_cell(N, self.lengths)]
            best, state = (x[:, 0] for x in best_root(self._root, left.choice, whole[:, None]))
            start = torch.zeros_like(self.lengths)
            form = roots(state, start, self.lengths, possible=best > -math.inf)
            vertices = self._grown(form, _SpanTrace(left, right, *chart))
            log_evidence = torch.maximum(self.log_evidence(), best)  # logarithms do not underflow, the chart may
            log_prob = torch.where(best > -math.inf, best - log_evidence, -math.inf)
            return Derivation(self.tokens, self.lengths, vertices, log_prob)

    def consensus(self) -> Derivation:
        """The tree with the most constituents expected to be right (B, …), and log p(tree | x) over all states.

        Of all trees it has the largest sum of ``span_marginals``. Where many states do the same work, each single
        derivation is improbable, and this says more of what the grammar means than ``argmax``. It takes sums only,
        which are matrix products, where maxima are not.
        """
        with torch.no_grad():
            marginals, log_evidence = self._marginals()
            start = torch.zeros_like(self.lengths)
            form = roots(start, start, self.lengths, possible=marginals[:, 0, 0] > 0)
            vertices = self._grown(form, _ConsensusTrace(*_best_sums(marginals)))
            return Derivation(self.tokens, self.lengths, vertices, self._given(vertices, log_evidence))

    def log_prob(self, vertices: Tensor) -> Tensor:
        """log p(tree | x), over all states: vertices (B, N) → (B,); −inf for a tree that is absent. Not differentiable.

        Each row has the leaves of a full binary tree, from left to right.
        """
        with torch.no_grad():
            return self._given(self._checked(vertices), self.log_evidence())

    def vertex_states(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        """Which states the vertices of given trees have: vertices (B, N), leaves as in ``log_prob`` → (B, M), (B, M, Q)

        The numbers of all vertices, leaves and others, in no certain order, −1 where there are no more; and
        p(state | tree, x) of each, which sum to one. An absent tree has no vertices. Not differentiable.
        """
        rounds: list[tuple[Tensor, Tensor]] = []
        with torch.enable_grad():
            at_root, _ = self._merged(self._checked(vertices), rounds)
            there = at_root > 0
            # How p(tree, x) changes with a factor at one state of one vertex is the share that goes through it.
            shares = torch.autograd.grad((at_root / at_root.detach().where(there, 1)).sum(), [x for _, x in rounds])
        numbers = torch.cat([found for found, _ in rounds], 1).masked_fill(~there[:, None], -1)
        most = int((numbers >= 0).sum(1).max()) if len(numbers) else 0
        order = (numbers < 0).long().argsort(dim=1, stable=True)[:, :most]
        states = torch.cat(shares, 1)
        return numbers.gather(1, order), states.gather(1, order[..., None].expand(-1, -1, states.shape[-1]))

    def _checked(self, vertices: Tensor) -> Tensor:
        """Whether they could be leaves of the sentences' trees: (B, N), int64"""
        check_integers("vertices", vertices, self.tokens.device)
        if vertices.shape != self.tokens.shape:
            raise ValueError(f"vertices: got shape {tuple(vertices.shape)}; expected {tuple(self.tokens.shape)}")
        return vertices.long()

    def _given(self, vertices: Tensor, log_evidence: Tensor) -> Tensor:
        """log p(tree | x) from log p(x); rounding may leave it above zero."""
        log_joint = self._log_joint(vertices)
        return torch.where(log_joint > -math.inf, (log_joint - log_evidence).clamp_max(0), -math.inf)

    def _marginals(self) -> tuple[Tensor, Tensor]:
        """Of spans, (B, N, N), and log p(x), (B,): both from one chart."""
        with torch.no_grad(), torch.autocast(self._leaves.device.type, enabled=False):
            left, right = (side.softmax() for side in self._logits)
            chart = inside(self._leaves, self._log_split, left, right)
            ones = self._leaves.new_ones(len(self.lengths))
            found = outside(chart, self._log_split, left, right, self._root, self.lengths, ones)
            return found.spans, evidence(chart, left.choice, self._root, self.lengths)

    def _log_joint(self, vertices: Tensor) -> Tensor:
        """log p(tree, x)"""
        at_root, scale = self._merged(vertices)
        return torch.where(at_root > 0, logarithm(at_root, scale), -math.inf)

    def _merged(self, vertices: Tensor, rounds: list[tuple[Tensor, Tensor]] | None = None) -> tuple[Tensor, Tensor]:
        """p(tree, x) as numbers and their scale, (B,) each; 0 of what is absent.

        Siblings that stand side by side become their parent, until only roots are left.

        rounds: where given, gets the vertices of each round, (B, n), −1 for those of others, and factors of one that
            their states are multiplied with, (B, n, Q)
        """
        with torch.autocast(self._leaves.device.type, enabled=False):
            left, right = (side.softmax() for side in self._logits)
            frontier = _Frontier(vertices, *scaled(*exponential(self._leaves))).marked(vertices >= 0, rounds)
            split = self._log_split.exp()[:, None]
            while bool((are_left := frontier.are_left_siblings()).any()):
                frontier, is_parent = frontier.with_parents(are_left, split, left, right)
                frontier = frontier.marked(is_parent, rounds)
            self._check_merged(vertices, frontier.vertices)
            at_root = root_of(frontier.values[:, 0], left.choice, self._root)
            return torch.where(frontier.vertices[:, 0] == 0, at_root, 0), frontier.scale[:, 0]

    def _check_merged(self, vertices: Tensor, merged: Tensor) -> None:
        """Whether a root is all that is left of each tree of as many leaves as tokens; or nothing, of an absent one."""
        leaves = (vertices >= 0).sum(-1)
        whole = (merged[:, 0] == 0) & (merged[:, 1:] < 0).all(-1) & (leaves == self.lengths)
        if bool((bad := ~whole & (leaves > 0)).any()):
            row = int(bad.nonzero()[0])
            expected = f"the {int(self.lengths[row])} leaves, left to right, of a full binary tree"
            raise ValueError(f"vertices: got {vertices[row].tolist()} in row {row}; expected {expected}")

    def _grown(self, form: Tensor, trace: Trace) -> Tensor:
        """Rows (sentence, vertex, state, start, end) → the leaves' vertices (B, N)."""
        N = self.tokens.shape[1]
        form = grow(form, min(N - 1, DEEPEST), trace)
        if N - 1 > DEEPEST and bool((form[:, 4] - form[:, 3] > 1).any()):
            raise ValueError(f"tokens: got a best tree deeper than {DEEPEST}; expected one whose heap numbers fit")
        return padded(form, len(self.lengths), N)[0]


class _Frontier(NamedTuple):
    """Vertices that are not yet part of another, from left to right, with what each state yields of the tokens."""

    vertices: Tensor  # (B, n), −1 past the end
    values: Tensor  # (B, n, Q), scaled as in Chart
    scale: Tensor  # (B, n)

    def are_left_siblings(self) -> Tensor:
        """(B, n − 1): of the one that comes next."""
        one, other = self.vertices[:, :-1], self.vertices[:, 1:]
        return (one > 0) & (one % 2 == 1) & (other == one + 1)

    def marked(self, new: Tensor, rounds: list[tuple[Tensor, Tensor]] | None) -> _Frontier:
        """With factors of one at vertices that are new, (B, n), kept in ``rounds``, if there are any."""
        if rounds is None:
            return self
        ones = torch.ones_like(self.values, requires_grad=True)
        rounds.append((self.vertices.masked_fill(~new, -1), ones))
        return self._replace(values=torch.where(new[..., None], self.values * ones, self.values))

    def with_parents(
        self, are_left: Tensor, split: Tensor, left: Transitions, right: Transitions
    ) -> tuple[_Frontier, Tensor]:
        """In place of siblings; and which are new, (B, n)."""
        arrived = left.arrived(self.values)
        lefts, rights = left.up(self.values, arrived)[:, :-1], right.up(self.values, arrived)[:, 1:]
        values, scale = scaled(split * lefts * rights, self.scale[:, :-1] + self.scale[:, 1:])
        is_parent, is_gone = pad(are_left, (0, 1)), pad(are_left, (1, 0))
        values, scale = pad(values, (0, 0, 0, 1)), pad(scale, (0, 1))
        vertices = torch.where(is_parent, (self.vertices - 1) // 2, self.vertices).masked_fill(is_gone, -1)
        order = (vertices < 0).long().argsort(dim=1, stable=True)[:, : int((vertices >= 0).sum(1).max())]
        values = torch.where(is_parent[..., None], values, self.values)
        return _Frontier(
            vertices.gather(1, order),
            values.gather(1, order[..., None].expand(-1, -1, values.shape[-1])),
            torch.where(is_parent, scale, self.scale).gather(1, order),
        ), is_parent.gather(1, order)


# --- which trees ------------------------------------------------------------------------------------------------------


def _best_sums(marginals: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N, N) → of spans as left and as right parts, (B, N, N − 1) as in Chart, the most that a tree's add up to."""
    B, N, _ = marginals.shape
    left, right = (marginals.new_empty(B, N, N - 1) for _ in range(2))
    for width in range(1, N):
        best = marginals.diagonal(width - 1, 1, 2)
        if width > 1:
            lefts, rights = parts_of(left, right, width)
            best = best + (lefts + rights).amax(-1)
        for part in as_parts(left, right, width):
            part[:] = best
    return left, right


def _halves(start: Tensor, end: Tensor, lefts: Tensor, rights: Tensor) -> Tensor:
    """Spans (S,) each and how good their parts are, (S, N − 1) as in Chart → the best two parts (S, 2, 2)."""
    N = lefts.shape[1] + 1
    middle = start[:, None] + torch.arange(1, N, device=start.device)  # (S, N − 1): where the right part starts
    width = (end[:, None] - middle).clamp_min(1)
    scores = lefts + rights.gather(1, N - 1 - width)
    best = start + 1 + scores.masked_fill(middle >= end[:, None], -math.inf).argmax(-1)
    return torch.stack([torch.stack([start, best], -1), torch.stack([best, end], -1)], dim=1)


class _ConsensusTrace(NamedTuple):
    """How the trees with the largest sums go on: rows (sentence, vertex, 0, start, end)."""

    lefts: Tensor  # (B, N, N − 1)
    rights: Tensor

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        split = rows[:, 4] - rows[:, 3] > 1
        sentence, _, state, start, end = rows[split].unbind(-1)
        spans = _halves(start, end, self.lefts[sentence, start], self.rights[sentence, end - 1])
        return split, torch.cat([state[:, None, None].expand(-1, 2, 1), spans], dim=-1)


class _SpanTrace(NamedTuple):
    """How the best derivations of given tokens go on: rows (sentence, vertex, state, start, end)."""

    log_left: Transitions
    log_right: Transitions
    values: Tensor  # (B, C, Q)
    lefts: Tensor  # (B, N, N − 1, Q), as in Chart
    rights: Tensor

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        split = rows[:, 4] - rows[:, 3] > 1
        sentence, _, state, start, end = rows[split].unbind(-1)
        lefts, rights = self.lefts[sentence, start, :, state], self.rights[sentence, end - 1, :, state]
        spans = _halves(start, end, lefts, rights)
        cells = first_cell(self.lefts.shape[1], spans[..., 1] - spans[..., 0]) + spans[..., 0]  # (S, 2)
        states = [
            best_child_of(side, sentence, state, self.values[sentence, cells[:, i]])
            for i, side in enumerate((self.log_left, self.log_right))
        ]
        return split, torch.cat([torch.stack(states, dim=-1)[..., None], spans], dim=-1)
