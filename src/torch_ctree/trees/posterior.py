"""Trees given the sentence: latent parsing."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_ctree.trees.checks import check_count, check_leaves
from torch_ctree.trees.derivation import Derivation
from torch_ctree.trees.kernels import torch as torch_kernel
from torch_ctree.trees.likelihood import Kernel, kernel_of, tree_log_likelihood
from torch_ctree.trees.search import best_trees, k_best_trees, trace
from torch_ctree.trees.spans import spans
from torch_ctree.trees.topology import topology_of


class TreePosterior:
    """p(T | x): the distribution of a sentence's tree. Made by ``LatentTree.posterior``.

    log_weights: (*batch, N, V), log m(v) + log p(x_n | v)
    tokens: (*batch, N)
    lengths: (*batch,)

    A sentence of probability zero has no posterior: its marginals and entropy are 0, its trees are absent (vertices −1,
    ``log_prob`` −inf).
    """

    log_weights: Tensor
    """(*batch, N, V): log m(v) + log p(x_n | v)."""
    tokens: Tensor
    """(*batch, N)"""
    lengths: Tensor
    """(*batch,)"""
    batch_shape: torch.Size
    """One posterior for each sentence."""

    def __init__(self, log_weights: Tensor, tokens: Tensor, lengths: Tensor, validate_args: bool = True):
        self._validate_args = validate_args
        self.log_weights, self.tokens, self.lengths = log_weights, tokens, lengths
        self.batch_shape = lengths.shape
        self._weights = log_weights.reshape(-1, *log_weights.shape[-2:])  # (B, N, V)
        self._lengths = lengths.reshape(-1)

    @property
    def _kernel(self) -> Kernel:
        return kernel_of(self.log_weights)

    def _grad_at_end(self) -> Tensor:
        """(B, N): one at each sentence's last token."""
        return torch.nn.functional.one_hot(self._lengths - 1, self._weights.shape[1]).to(self._weights.dtype)

    def log_evidence(self) -> Tensor:
        """(*batch,): log p(x), what ``log_prob`` divides by."""
        return tree_log_likelihood(self._weights, self._lengths, validate_args=False).reshape(self.batch_shape)

    def marginals(self) -> Tensor:
        """(*batch, N, V): the probability that vertex v emits token n. Each token's sum to one. Differentiable."""
        if torch.is_grad_enabled() and self.log_weights.requires_grad:  # they are the gradient of log p(x)
            return torch.autograd.grad(self.log_evidence().sum(), self.log_weights, create_graph=True)[0]
        completions, memory = self._kernel.forward(self._weights, self._lengths)
        grad = self._grad_at_end().masked_fill(completions == -math.inf, 0)
        return self._kernel.backward(self._weights, self._lengths, memory, grad).reshape(self.log_weights.shape)

    def span_marginals(self) -> Tensor:
        """(*batch, N, N): how probably the tokens from the first index to the second, included, are a constituent.

        Single tokens and the whole sentence are, for certain. Not differentiable. Takes about 2^D · N numbers.
        """
        with torch.no_grad():
            alphas = torch_kernel.alphas(self._weights, self._lengths)
            log_q = torch_kernel.log_conditionals(self._weights, self._lengths, alphas)
            possible = alphas[:, 1:, -1] > -math.inf
            marginals = torch_kernel.marginals(log_q, self._grad_at_end() * possible)
            return spans(log_q.exp(), marginals).reshape(*self.batch_shape, *marginals.shape[1:2] * 2)

    def entropy(self) -> Tensor:
        """(*batch,): H(T | x) in nats. Differentiable, so that it can be a regulariser.

        By the chain rule from the last leaf to the first, −Σ_n Σ_v μ_n(v) log q_n(v): each summand is positive, where
        log p(x) − E[log p(x, T)] would subtract two large numbers.
        """
        alphas = torch_kernel.alphas(self._weights, self._lengths)
        log_q = torch_kernel.log_conditionals(self._weights, self._lengths, alphas)
        marginals = torch_kernel.marginals(log_q, self._grad_at_end())
        surprise = marginals * log_q.masked_fill(log_q == -math.inf, 0)
        return -surprise.sum((-2, -1)).reshape(self.batch_shape)

    def log_prob(self, vertices: Tensor) -> Tensor:
        """log p(T | x) of trees with as many leaves as tokens: vertices (*sample, *batch, N) → (*sample, *batch)."""
        if self._validate_args:
            check_leaves(vertices, self.lengths.expand(vertices.shape[:-1]), topology_of(self.log_weights).depth)
        return self._log_prob(vertices)

    def _log_prob(self, vertices: Tensor) -> Tensor:
        """The same, unchecked; −inf for an absent tree, whose vertices are all −1."""
        leaves = self.log_weights.expand(*vertices.shape, -1).gather(-1, vertices.clamp_min(0)[..., None])[..., 0]
        log_joint = leaves.masked_fill(vertices < 0, 0).sum(-1)  # Eq. 8
        possible = (vertices[..., 0] >= 0) & (log_joint > -math.inf)
        return torch.where(possible, log_joint - self.log_evidence(), -math.inf)

    def argmax(self) -> Derivation:
        """The sentence's best tree (*batch, …)."""
        with torch.no_grad():
            return self._derivation(best_trees(self._weights, self._lengths))

    def topk(self, k: int) -> Derivation:
        """The k best trees, best first: (k, *batch, …). Where there are fewer, the rest have ``log_prob`` −inf."""
        check_count("k", k)
        with torch.no_grad():
            return self._derivation(k_best_trees(self._weights, self._lengths, k), (k,))

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Derivation:
        """Exact, independent samples (*sample, *batch, …), drawn leaf by leaf from the last to the first."""
        with torch.no_grad():
            alphas = self._kernel.alphas(self._weights, self._lengths)
            lengths = self._lengths.expand(math.prod(sample_shape), -1)
            return self._derivation(trace(alphas, self._weights, lengths, choose=_draw), sample_shape)

    def _derivation(self, vertices: Tensor, sample_shape: torch.Size | tuple[int, ...] = ()) -> Derivation:
        """vertices (sample · B, N) in any grouping → a Derivation (*sample, *batch, …)."""
        shape = (*sample_shape, *self.batch_shape)
        vertices = vertices.reshape(*shape, vertices.shape[-1])
        return Derivation(
            self.tokens.expand(*shape, -1), self.lengths.expand(shape), vertices, self._log_prob(vertices)
        )


def _draw(scores: Tensor) -> Tensor:
    """(…, K) → (…): an index with probability softmax(scores), by the Gumbel-max trick."""
    return (scores - torch.empty_like(scores).exponential_().log()).argmax(-1)
