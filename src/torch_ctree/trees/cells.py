"""What the charts of a grammar are made of: cells, the numbers in them, and how states follow each other.

The cells (start, width) are stored one width after another, C = N(N + 1)/2 of them. L is stored as [start, width − 1]
and R as [end − 1, N − 1 − width], so that the two parts of all spans of a width, at all split points, are plain slices
that run in the same direction.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

LN2 = math.log(2)

TOP = {torch.float32: 56, torch.float64: 480}
"""Binary logarithm of what a cell's best state is scaled to: N products of two such numbers must not overflow."""

Whole = TypeVar("Whole", int, Tensor)


class Chart(NamedTuple):
    """The inside probabilities of a batch, cell by cell as 2^scale · beta."""

    beta: Tensor  # (B, C, Q)
    scale: Tensor  # (B, C), whole numbers; −inf where no state is possible
    left: Tensor  # (B, N, N − 1, Q) [start, width − 1]: L, scaled like beta
    right: Tensor  # (B, N, N − 1, Q) [end − 1, N − 1 − width]: R
    left_scale: Tensor  # (B, N, N − 1)
    right_scale: Tensor  # (B, N, N − 1)


class Transitions(NamedTuple):
    """From the states of vertices to those of their left children, or of their right ones.

    A state is a place and one of O operators, Q = P · O. A child goes to a place and there takes an operator by
    ``choice``; or it stays at its parent's with an operator that is not one of the first A: those are the W = P + O − A
    columns.
    """

    values: Tensor  # (B, Q, W)
    choice: Tensor  # (B, P, O)

    @property
    def places(self) -> int:
        """P"""
        return self.choice.shape[1]

    @property
    def operators(self) -> int:
        """O"""
        return self.choice.shape[2]

    @property
    def arriving(self) -> int:
        """A: operators that nobody stays with; they are taken by arriving at a place"""
        return self.operators + self.places - self.values.shape[-1]

    @property
    def has_stays(self) -> bool:
        """Whether a child can stay at its parent's place."""
        return self.values.shape[-1] > self.places

    def by_place(self, states: Tensor) -> Tensor:
        """(…, Q) → (…, P, O)"""
        return states.unflatten(-1, (self.places, self.operators))

    def kept(self, states: Tensor) -> Tensor:
        """(…, Q) → (…, P, O − A): those that can be stayed with"""
        return self.by_place(states)[..., self.arriving :]

    def softmax(self) -> Transitions:
        """Logits → probabilities."""
        return Transitions(self.values.softmax(-1), self.choice.softmax(-1))

    def log_softmax(self) -> Transitions:
        """Logits → logarithms of probabilities."""
        return Transitions(self.values.log_softmax(-1), self.choice.log_softmax(-1))

    # --- sums: the values are probabilities ---------------------------------------------------------------------------

    def arrived(self, beta: Tensor) -> Tensor:
        """Of states, (B, n, Q), the mean at each place, (B, n, P): the same for left and right."""
        return beta if self.operators == 1 else (self.by_place(beta) * self.choice[:, None]).sum(-1)

    def up(self, beta: Tensor, arrived: Tensor) -> Tensor:
        """Of children's states, (B, n, Q), and of their places, the mean as their parents' states see it: (B, n, Q)."""
        seen = arrived @ self._going.mT
        if self.has_stays:
            seen += torch.einsum("bnpk,bpok->bnpo", self.kept(beta), self._staying).flatten(2)
        return seen

    def down(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of ``up``: by places, (B, n, P), and by states that are stayed with, (B, n, P, O − A)."""
        return gradient @ self._going, torch.einsum("bnpo,bpok->bnpk", self.by_place(gradient), self._staying)

    def pairs(self, parents: Tensor, children: Tensor, arrived: Tensor) -> Tensor:
        """Σ_n parents[n, s] · children[n, t] for the columns t of every state s: (B, n, Q) each → (B, Q, W)."""
        going = parents.mT @ arrived
        if not self.has_stays:
            return going
        staying = torch.einsum("bnpo,bnpk->bpok", self.by_place(parents), self.kept(children))
        return torch.cat([going, staying.flatten(1, 2)], dim=-1)

    @property
    def _going(self) -> Tensor:
        """(B, Q, P)"""
        return self.values[..., : self.places]

    @property
    def _staying(self) -> Tensor:
        """(B, P, O, O − A)"""
        return self.values[..., self.places :].unflatten(1, (self.places, self.operators))

    # --- maxima: the values are logarithms ----------------------------------------------------------------------------

    def best_operator(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Of states, (B, n, Q), the best at each place, and its operator: (B, n, P) each."""
        best, operator = (self.by_place(values) + self.choice[:, None]).max(-1)
        return best, operator

    def best_child(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """max over child states t of log p(t | s) + values[n, t], and that child: (B, n, Q) → (B, n, Q) each."""
        arrived, operator = self.best_operator(values)
        best, place = (self._going[:, None] + arrived[:, :, None]).max(-1)
        child = place * self.operators + operator.gather(2, place)
        if not self.has_stays:
            return best, child
        home = self.kept(values)[:, :, :, None]  # (B, n, P, 1, O − A)
        stay, operator = (x.flatten(2) for x in (self._staying[:, None] + home).max(-1))
        own = torch.arange(values.shape[-1], device=values.device) // self.operators * self.operators
        return torch.maximum(best, stay), torch.where(stay > best, own + self.arriving + operator, child)

    def of(self, sentence: Tensor, state: Tensor, child: Tensor) -> Tensor:
        """log p(child | state): (F,) each → (F,)."""
        place, operator = child // self.operators, child % self.operators
        going = self.values[sentence, state, place] + self.choice[sentence, place, operator]
        stays = (state // self.operators == place) & (operator >= self.arriving)
        column = (self.places - self.arriving + operator).clamp(0, self.values.shape[-1] - 1)
        return torch.where(stays, self.values[sentence, state, column], going)


class Outside(NamedTuple):
    """The derivatives of the log-probability, from the widest cell to the narrowest."""

    leaves: Tensor  # (B, N, Q): of the logarithm of leaf(s) · emit(s, x_i)
    splits: Tensor  # (B, Q): of log split(s)
    choice: Tensor  # (B, P, O): of the logarithm of the operators' probabilities
    left: Tensor  # (B, C − 1, Q): of L, cell by cell; the widest is nobody's child
    right: Tensor  # (B, C − 1, Q): of R
    spans: Tensor  # (B, N, N) [start, end − 1]: posterior probabilities


def first_cell(tokens: int, width: Whole) -> Whole:
    """The number of the cell (0, width)."""
    return (width - 1) * (2 * tokens - width + 2) // 2


def cells_of(tokens: int, width: int) -> slice:
    """The cells of a width, by start."""
    return slice(first_cell(tokens, width), first_cell(tokens, width + 1))


def as_parts(left: Tensor, right: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(B, N, N − 1, …) each → (B, spans, …) each: all spans of a width as left and as right parts of wider ones."""
    N = left.shape[1]
    return left[:, : N - width + 1, width - 1], right[:, width - 1 :, N - 1 - width]


def parts_of(left: Tensor, right: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(B, N, N − 1, …) each → (B, spans, width − 1, …) each: left and right parts of all spans, at all split points."""
    N = left.shape[1]
    return left[:, : N - width + 1, : width - 1], right[:, width - 1 :, N - width :]


def exponential(logarithms: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n, Q) → numbers, 2 at most, and their scale (B, n): exp(logarithms) = 2^scale · numbers."""
    scale = (logarithms.amax(-1) / LN2).floor().clamp_min(torch.finfo(logarithms.dtype).min)
    return torch.exp(logarithms - LN2 * scale[..., None]), scale


def logarithm(numbers: Tensor, scale: Tensor) -> Tensor:
    """log(2^scale · numbers): two whole numbers are added before they are multiplied, so that no digits are lost."""
    mantissa, exponent = torch.frexp(numbers)
    return mantissa.log() + LN2 * (scale + exponent)


def scaled(value: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """2^scale · value (B, spans, Q), the same with the largest value at the top."""
    top = TOP[value.dtype]
    largest = value.amax(-1)
    shift = (top - torch.frexp(largest).exponent).clamp_max(2 * top).to(value.dtype)
    return value * torch.exp2(shift)[..., None], (scale - shift).masked_fill(largest == 0, -math.inf)


def root_of(beta: Tensor, choice: Tensor, root: Tensor) -> Tensor:
    """Of states (B, Q), the mean at the root's place: (B,)."""
    sentence = torch.arange(len(root), device=root.device)
    return (beta.unflatten(-1, choice.shape[1:])[sentence, root] * choice[sentence, root]).sum(-1)


def value_at_root(chart: Chart, choice: Tensor, root: Tensor, lengths: Tensor) -> Tensor:
    """(B,): the scaled probability that the root's place yields the sentence."""
    sentence = torch.arange(len(root), device=root.device)
    return root_of(chart.beta[sentence, first_cell(chart.left.shape[1], lengths)], choice, root)
