"""The stick-breaking prior over full binary trees: at each vertex, stop with probability l_v or split in two."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl
from torch.nn.functional import logsigmoid

from torch_ctree.devices import in_kernels
from torch_ctree.trees.checks import check_count, check_floats, check_leaves, check_no_nan, check_vertices
from torch_ctree.trees.kernels.torch import in_accumulation_dtype
from torch_ctree.trees.likelihood import completion_log_probs, kernel_of
from torch_ctree.trees.topology import leaves_from_mask, level, past_end, topology_of


class Leaves(NamedTuple):
    """Trees, as their leaves: heap indices from left to right."""

    vertices: Tensor
    """(*batch, N), padded with −1."""
    lengths: Tensor
    """(*batch,)"""


class TreePrior(Distribution):
    """p(T) over the internal trees of the complete tree of depth D.

    leaf_logits: (*batch, V), V = 2^(D+1) − 1: the logit of l_v, the probability that v, once reached, is a leaf. ±inf
        is allowed. The deepest level is always a leaf, whatever its logits: so the trees' probabilities sum to one.
    validate_args: whether to check values, here and in every method; by default as ``torch.distributions`` is set.
    """

    arg_constraints = {"leaf_logits": constraints.real}  # noqa: RUF012 # pyright: ignore[reportAssignmentType]

    leaf_logits: Tensor
    """(*batch, V)"""
    depth: int
    """D: trees have at most 2^D leaves."""

    def __init__(self, leaf_logits: Tensor, validate_args: bool | None = None):
        check_floats("leaf_logits", leaf_logits)
        self.depth = check_vertices("leaf_logits", leaf_logits)
        self.leaf_logits = leaf_logits
        if validate_args or (validate_args is None and self._validate_args):
            check_no_nan("leaf_logits", leaf_logits)
        super().__init__(leaf_logits.shape[:-1], validate_args=validate_args)

    def __repr__(self) -> str:
        """The sizes; the logits themselves are many."""
        return f"TreePrior(batch_shape={tuple(self.batch_shape)}, depth={self.depth})"

    def expand(self, batch_shape: torch.Size | tuple[int, ...], _instance: TreePrior | None = None) -> TreePrior:
        """The same prior with more batch dimensions."""
        new = cast(TreePrior, self._get_checked_instance(TreePrior, _instance))
        new.depth = self.depth
        new.leaf_logits = self.leaf_logits.expand(*batch_shape, -1)
        super(TreePrior, new).__init__(torch.Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_leaf_and_split(self) -> tuple[Tensor, Tensor]:
        """log l_v and log(1 − l_v), (*batch, V) each, with l_v = 1 at the deepest level."""
        logits = in_accumulation_dtype(self.leaf_logits).clone()
        logits[..., level(self.depth)] = torch.inf
        return logsigmoid(logits), logsigmoid(-logits)

    def log_m(self) -> Tensor:
        """(*batch, V): log m(v), the factor of p(T) that leaf v stands for.

        By the recurrence Eq. 6–7 from the root down: m(v) = √m̃(parent) · l_v, m̃(v) = √m̃(parent) · (1 − l_v).
        """
        if self.leaf_logits.dtype == torch.float32 and in_kernels(self.leaf_logits):
            from torch_ctree.trees import factors  # noqa: PLC0415  (imports Triton)

            return factors.log_m(self.leaf_logits, lambda logits: TreePrior(logits, validate_args=False)._log_m())
        return self._log_m()

    def _log_m(self) -> Tensor:
        log_leaf, log_split = self.log_leaf_and_split()
        inherited = log_leaf.new_zeros(*self.batch_shape, 1)  # ½ log m̃(parent(v))
        levels = []
        for d in range(self.depth + 1):
            levels.append(inherited + log_leaf[..., level(d)])
            inherited = (0.5 * (inherited + log_split[..., level(d)])).repeat_interleave(2, dim=-1)
        return torch.cat(levels, dim=-1)

    def log_reach(self) -> Tensor:
        """(*batch, V): the log-probability that v is a vertex of the tree: every vertex above it split."""
        _, log_split = self.log_leaf_and_split()
        reach = log_split.new_zeros(*self.batch_shape, 1)
        levels = [reach]
        for d in range(self.depth):
            reach = (reach + log_split[..., level(d)]).repeat_interleave(2, dim=-1)
            levels.append(reach)
        return torch.cat(levels, dim=-1)

    def log_prob(self, vertices: Tensor, lengths: Tensor) -> Tensor:
        """log p(T) as the product of m over the leaves, Eq. 4.

        Trees as their leaves, left to right: vertices (*sample, *batch, N), lengths (*sample, *batch)
        → (*sample, *batch)
        """
        if self._validate_args:
            check_leaves(vertices, lengths, self.depth)
        log_m = self.log_m().expand(*vertices.shape[:-1], -1).gather(-1, vertices.clamp_min(0))
        return log_m.masked_fill(past_end(lengths, vertices.shape[-1]), 0).sum(-1)

    def log_prob_recursive(self, vertices: Tensor, lengths: Tensor) -> Tensor:
        """log p(T) = log π(root) by the recursion Eq. 3, from the leaves up. Equal to ``log_prob``."""
        if self._validate_args:
            check_leaves(vertices, lengths, self.depth)
        log_leaf, log_split = self.log_leaf_and_split()
        V = log_leaf.shape[-1]
        is_leaf = torch.zeros(*vertices.shape[:-1], V + 1, dtype=torch.bool, device=vertices.device)
        is_leaf = is_leaf.scatter(-1, vertices.masked_fill(past_end(lengths, vertices.shape[-1]), V), True)
        pi = log_leaf[..., level(self.depth)]
        for d in reversed(range(self.depth)):
            split = log_split[..., level(d)] + pi[..., 0::2] + pi[..., 1::2]
            pi = torch.where(is_leaf[..., level(d)], log_leaf[..., level(d)], split)
        return pi[..., 0].expand(lengths.shape)

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Leaves:
        """→ trees, vertices (*sample, *batch, N) and lengths (*sample, *batch)."""
        with torch.no_grad():
            log_leaf, _ = self.log_leaf_and_split()
            stops = torch.bernoulli(log_leaf.exp().expand(*sample_shape, *log_leaf.shape)).bool()
            return Leaves(*leaves_from_mask(stops & reached(~stops)))

    def entropy(self) -> Tensor:
        """(*batch,): H(T) = Σ_v P(v is in the tree) · H(l_v), in nats."""
        log_leaf, log_split = self.log_leaf_and_split()
        decision = -(_times(log_leaf.exp(), log_leaf) + _times(log_split.exp(), log_split))
        return (self.log_reach().exp() * decision).sum(-1)

    def kl(self, other: TreePrior) -> Tensor:
        """(*batch,): KL(self ‖ other) = Σ_v P(v is in the tree) · KL(l_v ‖ l'_v); +inf where other rules out a tree."""
        if self.depth != other.depth:
            raise ValueError(f"other: got a prior of depth {other.depth}; expected depth {self.depth}")
        leaf, split = self.log_leaf_and_split()
        other_leaf, other_split = other.log_leaf_and_split()
        decision = _times(leaf.exp(), leaf - other_leaf) + _times(split.exp(), split - other_split)
        return _times(self.log_reach().exp(), decision).sum(-1)

    def length_log_prob(self, max_length: int | None = None) -> Tensor:
        """(*batch, max_length): the log-probability of 1, 2, … leaves; up to all 2^D of them by default."""
        max_length = 1 << self.depth if max_length is None else max_length
        check_count("max_length", max_length)
        log_m = self.log_m().flatten(end_dim=-2) if self.batch_shape else self.log_m()[None]  # (B, V)
        weights = log_m[:, None].expand(-1, max_length, -1)  # every token costs nothing
        lengths = torch.full(weights.shape[:1], max_length, device=weights.device)
        completions = completion_log_probs(weights, lengths, kernel_of(weights))
        return completions.reshape(*self.batch_shape, max_length)


register_kl(TreePrior, TreePrior)(TreePrior.kl)


def reached(splits: Tensor) -> Tensor:
    """splits: bool (*batch, V) → bool (*batch, V): the vertices all of whose ancestors split."""
    alive = torch.ones_like(splits[..., :1])
    levels = [alive]
    for d in range(topology_of(splits).depth):
        alive = (alive & splits[..., level(d)]).repeat_interleave(2, dim=-1)
        levels.append(alive)
    return torch.cat(levels, dim=-1)


def _times(probability: Tensor, value: Tensor) -> Tensor:
    """probability × value with 0 × ±inf = 0, in the gradient too."""
    possible = probability > 0
    return torch.where(possible, probability * torch.where(possible, value, 0), 0)
