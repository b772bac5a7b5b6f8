"""Bad arguments, said in one line: which argument, what came, what was expected."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_ctree.trees.topology import depth_for_leaves, depth_for_vertices, past_end, topology

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LARGEST_PENALTY = 7
"""((5 + n) / 6) to this power is finite in float32 for all n up to 2²⁰; beyond, all lengths would be equally good."""


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def check_floats(name: str, value: object) -> None:
    """A floating-point tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}: got {type(value).__name__}; expected a torch.Tensor")
    if value.dtype not in FLOATS:
        raise ValueError(f"{name}: got dtype {value.dtype}; expected one of {_names(FLOATS)}")


def check_integers(name: str, value: object, device: torch.device) -> None:
    """An integer tensor on a device."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}: got {type(value).__name__}; expected a torch.Tensor of integers")
    if value.dtype not in INTEGERS:
        raise ValueError(f"{name}: got dtype {value.dtype}; expected one of {_names(INTEGERS)}")
    check_device(name, value, device)


def check_device(name: str, value: Tensor, device: torch.device) -> None:
    """A tensor on the device the others are on."""
    if value.device != device:
        raise ValueError(f"{name}: got a tensor on {value.device}; expected one on {device}, where the others are")


def check_vertices(name: str, value: Tensor, dim: int = -1) -> int:
    """A dimension over the vertices of a complete tree → its depth."""
    size = value.shape[dim] if value.dim() >= -dim else 0
    depth = depth_for_vertices(size)
    if depth is None:
        raise ValueError(
            f"{name}: got shape {tuple(value.shape)}; expected V = 2**(D+1) - 1 vertices (1, 3, 7, 15, …) "
            f"in dimension {dim}"
        )
    return depth


def check_log_weights(log_weights: Tensor) -> None:
    """(B, N, V) floats with N ≥ 1 and V the vertices of a complete tree."""
    check_floats("log_weights", log_weights)
    if log_weights.dim() != 3 or log_weights.shape[1] == 0:
        raise ValueError(
            f"log_weights: got shape {tuple(log_weights.shape)}; expected (sentences, tokens, vertices) "
            "with at least one token"
        )
    check_vertices("log_weights", log_weights)


def check_weight_values(log_weights: Tensor, lengths: Tensor) -> None:
    """No NaN and no +inf at tokens that count."""
    # The maximum is NaN if anything is: one pass that allocates nothing in the usual case.
    if log_weights.numel() == 0 or log_weights.detach().max() < math.inf:
        return
    bad = ~(log_weights < math.inf) & ~past_end(lengths, log_weights.shape[1])[..., None]
    if bad.any():
        b, n, v = bad.nonzero()[0].tolist()
        raise ValueError(f"log_weights: got {log_weights[b, n, v].item()} at [{b}, {n}, {v}]; expected numbers or -inf")


def check_lengths(lengths: Tensor, batch: torch.Size, tokens: int, device: torch.device, values: bool) -> Tensor:
    """(*batch,) integers in 1..tokens → the same as int64."""
    check_integers("lengths", lengths, device)
    if lengths.shape != batch:
        raise ValueError(f"lengths: got shape {tuple(lengths.shape)}; expected {tuple(batch)}, one length a sentence")
    if values and bool(((lengths < 1) | (lengths > tokens)).any()):
        where, length = first(lengths, (lengths < 1) | (lengths > tokens))
        raise ValueError(f"lengths: got {length} at {where}; expected 1 to {tokens}, the number of token columns")
    return lengths.long()


def check_lengths_fit(lengths: Tensor, depth: int) -> None:
    """No sentence longer than a tree of this depth can hold."""
    if bool((lengths > 1 << depth).any()):
        where, length = first(lengths, lengths > 1 << depth)
        raise ValueError(
            f"lengths: got {length} at {where}; expected at most {1 << depth}, the leaves of a tree of depth {depth}: "
            f"this sentence needs depth {depth_for_leaves(length)}"
        )


def check_tokens(tokens: Tensor, lengths: Tensor, vocabulary: int) -> None:
    """Token ids in 0..vocabulary − 1 wherever they count."""
    bad = ((tokens < 0) | (tokens >= vocabulary)) & ~past_end(lengths, tokens.shape[-1])
    if bool(bad.any()):
        where, token = first(tokens, bad)
        raise ValueError(f"tokens: got {token} at {where}; expected 0 to {vocabulary - 1}, an entry of the vocabulary")


def first(values: Tensor, bad: Tensor) -> tuple[str, int]:
    """Where the first bad value is, as an index like ``[2, 0]``, and the value."""
    index = bad.nonzero()[0]
    return str(index.tolist()), int(values[tuple(index)])


def check_count(name: str, value: object) -> None:
    """A whole number, 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: got {value!r}; expected a whole number, 1 or more")


def check_penalty(name: str, value: float) -> None:
    """A length penalty that tells lengths apart."""
    if not 0 <= value <= LARGEST_PENALTY:
        raise ValueError(f"{name}: got {value!r}; expected a number from 0 to {LARGEST_PENALTY}")


def check_no_nan(name: str, value: Tensor) -> None:
    """No NaN."""
    if bool(value.isnan().any()):
        raise ValueError(f"{name}: got nan at {value.isnan().nonzero()[0].tolist()}; expected numbers")


def check_leaves(vertices: Tensor, lengths: Tensor, depth: int) -> None:
    """Leaves of full binary trees: intervals that abut and cover the line."""
    check_integers("vertices", vertices, vertices.device)
    lengths = check_lengths(lengths, vertices.shape[:-1], vertices.shape[-1], vertices.device, values=True)
    tree = topology(depth)
    over = past_end(lengths, vertices.shape[-1])
    outside = ((vertices < 0) | (vertices >= tree.vertices)) & ~over
    tensors, known = tree.on(vertices.device), vertices.masked_fill(outside | over, 0).long()
    starts = tensors.starts[known].masked_fill(over, tree.positions)
    ends = tensors.ends[known].masked_fill(over, tree.positions)
    expected = torch.nn.functional.pad(ends, (1, 0))  # each leaf starts where the one before ended, the first at 0
    starts = torch.nn.functional.pad(starts, (0, 1), value=tree.positions)
    bad = outside.any(-1) | (starts != expected).any(-1)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        leaves = vertices[tuple(where)][: int(lengths[tuple(where)])].tolist()
        raise ValueError(
            f"vertices: got {leaves} at {where}; expected the leaves, left to right, of a full binary tree "
            f"of depth {depth} at most"
        )
