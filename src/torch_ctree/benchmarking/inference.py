"""Exact inference: likelihoods with gradients, the best sentences and trees, the memory of a large vocabulary."""

from __future__ import annotations

from typing import Any

import torch

from torch_ctree.benchmarking.timing import timed, timed_alone
from torch_ctree.devices import in_tf32
from torch_ctree.trees import LatentTree, LinearEmission, tree_log_likelihood

SEED = 0
BANDWIDTH = 4.3e12
"""Bytes a second that an H200 reads or writes at best, as measured."""


def likelihood(depth: int, tokens: int, batch: int, device: torch.device) -> dict[str, Any]:
    """log p(x) of random weights and its gradient; all sentences of full length."""
    torch.manual_seed(SEED)
    weights = (torch.randn(batch, tokens, (2 << depth) - 1, device=device) - 3).requires_grad_()
    lengths = torch.full((batch,), tokens, device=device)

    def work() -> object:
        value = tree_log_likelihood(weights, lengths, validate_args=False)
        return torch.autograd.grad(value.sum(), weights)

    found = timed_alone(work, device)
    floor = 3 * weights.numel() * weights.element_size() / BANDWIDTH
    return found | {"value": found["median_ms"], "floor_ms": 1e3 * floor, "called_ms": timed(work, device)["median_ms"]}


def of_a_few_dozen_tokens(sentences: int, depth: int, device: torch.device) -> LatentTree:
    """Splits near the root, stops further down, and is sure of its words: that is how long its best sentences are."""
    torch.manual_seed(SEED)
    vertices = (2 << depth) - 1
    levels = torch.arange(1, vertices + 1, dtype=torch.float64).log2().floor()
    leaf_logits = (6 * (levels - 4.5) + 3 * torch.randn(sentences, vertices)).float().to(device)
    return LatentTree(leaf_logits, 12 * torch.randn(sentences, vertices, 10).to(device), validate_args=False)


def argmax(sentences: int, depth: int, max_length: int, device: torch.device) -> dict[str, Any]:
    """The exact best (sentence, tree) pairs, of a few dozen tokens."""
    dist = of_a_few_dozen_tokens(sentences, depth, device)
    found = timed(lambda: dist.argmax(max_length), device)
    lengths = dist.argmax(max_length).lengths
    binding = timed(lambda: dist.argmax(max_length // 2), device)["median_ms"]
    return found | {
        "value": found["median_ms"],
        "longest": int(lengths.max()),
        "half_as_long_ms": binding,
    }


def vocabulary_memory(device: torch.device, batch: int = 64) -> dict[str, Any]:
    """The most memory that a loss over 10,000 words takes, with its gradients, above inputs and parameters."""
    depth, tokens, width, words = 8, 48, 512, 10_000
    torch.manual_seed(SEED)
    vertices = (2 << depth) - 1
    states = torch.randn(batch, vertices, width, device=device).requires_grad_()
    weight = (torch.randn(words, width, device=device) / width**0.5).requires_grad_()
    bias, leaf_logits = (torch.zeros(size, device=device).requires_grad_() for size in ((words,), (batch, vertices)))
    said = torch.randint(words, (batch, tokens), device=device)
    lengths = torch.full((batch,), tokens, device=device)
    everything = (states, weight, bias, leaf_logits)

    def work() -> None:
        for tensor in everything:
            tensor.grad = None
        dist = LatentTree(leaf_logits, LinearEmission(states, weight, bias), validate_args=False)
        dist.log_prob(said, lengths).sum().backward()

    work()
    for tensor in everything:
        tensor.grad = None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    peak = (torch.cuda.max_memory_allocated(device) - before) / 2**20
    with in_tf32(device):
        return {"value": peak, "step_ms": timed(work, device)["median_ms"]}
