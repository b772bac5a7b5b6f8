"""The marginal likelihood of a sentence: the sum over every binary tree that could have produced it."""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

import torch
from torch import Tensor

from torch_ctree.devices import triton_runs
from torch_ctree.trees import paper
from torch_ctree.trees.checks import check_lengths, check_log_weights, check_weight_values
from torch_ctree.trees.compiling import outside_graphs
from torch_ctree.trees.kernels import torch as torch_kernel
from torch_ctree.trees.topology import topology_of

Backend = Literal["auto", "paper", "torch", "numba", "triton"]

DEEPEST_IN_TRITON = 14
"""A program has all positions of a sentence in its registers."""


class Kernel(Protocol):
    """What a module in ``kernels`` offers; see that package's docstring."""

    def forward(self, log_weights: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]: ...  # noqa: D102
    def backward(self, log_weights: Tensor, lengths: Tensor, memory: Tensor, grad: Tensor) -> Tensor: ...  # noqa: D102
    def alphas(self, log_weights: Tensor, lengths: Tensor, maximise: bool = False) -> Tensor: ...  # noqa: D102


@runtime_checkable
class SearchKernel(Kernel, Protocol):
    """What some modules in ``kernels`` offer besides; see that package's docstring."""

    def best_paths(self, log_weights: Tensor, lengths: Tensor) -> Tensor: ...  # noqa: D102
    def best_path_within(self, leaf_scores: Tensor, max_length: int) -> tuple[Tensor, Tensor, Tensor]: ...  # noqa: D102
    def best_derivation(  # noqa: D102
        self, log_leaf: Tensor, log_split: Tensor, token_scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]: ...


def tree_log_likelihood(
    log_weights: Tensor, lengths: Tensor, *, backend: Backend = "auto", validate_args: bool = True
) -> Tensor:
    """log Σ, over all binary trees with as many leaves as the sentence has tokens, of the product of leaf weights.

    log_weights: (B, N, V), floating point: log m(v) + log p(x_n | v), vertices in heap order (root 0; children of v:
        2v + 1 and 2v + 2), V = 2^(D+1) − 1 for a tree of depth D. Rows past a sentence's length are ignored.
    lengths: (B,), integers in 1..N: the number of tokens of each sentence.
    backend: "numba" (CPU), "triton" (GPU), "torch" (any device), "paper" (the paper's table M, slow), or "auto", the
        fastest one that can run.
    validate_args: check the values too: NaN or +inf in log_weights, lengths out of range. On a GPU this waits for the
        device; switch it off in an inner loop. Shapes, dtypes and devices are always checked.

    → (B,) natural log-likelihoods, differentiable (the gradient is the posterior probability that vertex v emits token
    n), −inf with a zero gradient where no tree fits. float16 and bfloat16 are summed, and returned, in float32.

    With weights of one, it counts trees:

    >>> tree_log_likelihood(torch.zeros(1, 4, 15), torch.tensor([4])).exp().round()
    tensor([5.])
    """
    check_log_weights(log_weights)
    lengths = check_lengths(lengths, log_weights.shape[:1], log_weights.shape[1], log_weights.device, validate_args)
    if validate_args:
        check_weight_values(log_weights, lengths)
    log_weights = torch_kernel.in_accumulation_dtype(log_weights)
    if backend == "paper":
        return paper.log_likelihood(log_weights, lengths)
    completions = completion_log_probs(log_weights, lengths, kernel_of(log_weights, backend))
    return completions.gather(1, lengths[:, None] - 1)[:, 0]


def kernel_of(per_vertex: Tensor, backend: Backend = "auto") -> Kernel:
    """The module in ``kernels`` that computes with a tensor (…, V)."""
    return kernel_for(per_vertex.device, backend, topology_of(per_vertex).depth)


@outside_graphs
def kernel_for(device: torch.device, backend: Backend = "auto", depth: int = 0) -> Kernel:
    """The module in ``kernels`` that computes on a device with trees of a depth."""
    if backend not in get_args(Backend) or backend == "paper":
        names = ", ".join(repr(name) for name in get_args(Backend))
        raise ValueError(f"backend: got {backend!r}; expected one of {names}")
    if backend == "auto":
        backend = _fastest(device, depth)
    if backend == "numba" and device.type != "cpu":
        raise ValueError(f"backend: got 'numba' with log_weights on {device}; expected tensors on the CPU, or 'torch'")
    if backend == "triton" and not triton_runs(device):
        raise ValueError(
            f"backend: got 'triton' with log_weights on {device}; expected tensors on a GPU that Triton supports "
            "and the package 'triton', or 'torch'"
        )
    if backend == "triton" and depth > DEEPEST_IN_TRITON:
        raise ValueError(f"backend: got 'triton' with depth {depth}; expected {DEEPEST_IN_TRITON} at most, or 'torch'")
    return cast(Kernel, importlib.import_module(f"torch_ctree.trees.kernels.{backend}"))


def _fastest(device: torch.device, depth: int) -> Backend:
    if device.type == "cpu":  # numba even where Triton's interpreter could run
        return "numba" if importlib.util.find_spec("numba") else "torch"
    return "triton" if depth <= DEEPEST_IN_TRITON and triton_runs(device) else "torch"


@outside_graphs
def completion_log_probs(log_weights: Tensor, lengths: Tensor, kernel: Kernel) -> Tensor:
    """log_weights (B, N, V), lengths (B,) → (B, N): the log-likelihood of each prefix as a whole sentence.

    Differentiable; −inf past a sentence's length.
    """
    completions, _ = cast(tuple[Tensor, Tensor], _Completions.apply(log_weights, lengths, kernel))
    return completions


class _Completions(torch.autograd.Function):
    """The recursion with its hand-written derivative, posterior marginals; also under ``torch.func`` transforms."""

    @staticmethod
    def forward(log_weights: Tensor, lengths: Tensor, kernel: Kernel) -> tuple[Tensor, Tensor]:
        return kernel.forward(log_weights, lengths)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Kernel], output: tuple[Tensor, Tensor]) -> None:
        log_weights, lengths, ctx.kernel = inputs
        completions, memory = output
        ctx.mark_non_differentiable(memory)
        ctx.set_materialize_grads(False)  # or the memory, too, would be given a gradient: zeros, for nothing
        ctx.save_for_backward(log_weights, lengths, memory, completions)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, None, None]:
        if grad is None:
            return None, None, None
        log_weights, lengths, memory, completions = ctx.saved_tensors
        grad = grad.masked_fill(completions == -math.inf, 0)
        if torch.is_grad_enabled():  # create_graph=True: someone wants to differentiate the marginals
            alphas = torch_kernel.alphas(log_weights, lengths)
            return torch_kernel.backward(log_weights, lengths, alphas, grad), None, None
        return ctx.kernel.backward(log_weights, lengths, memory, grad), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None, None], log_weights: Tensor, lengths: Tensor, kernel: Kernel
    ):
        """The mapped dimension becomes part of the batch."""
        weights, sizes = (
            tensor.movedim(dim, 0) if dim is not None else tensor.expand(info.batch_size, *tensor.shape)
            for tensor, dim in ((log_weights, in_dims[0]), (lengths, in_dims[1]))
        )
        completions, memory = _Completions.apply(weights.flatten(0, 1), sizes.flatten(), kernel)
        return (completions.unflatten(0, sizes.shape), memory), (0, None)
