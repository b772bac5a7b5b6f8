"""The complete binary tree of depth D, seen as intervals. Integers only.

Vertex number a of depth d (a = 0 … 2^d − 1) owns the interval [a·2^(D−d), (a+1)·2^(D−d)) of the line 0 … 2^D. The
leaves of a full binary tree, read left to right, are intervals that abut and cover the whole line; and every chain of
abutting vertex intervals from 0 to 2^D is the leaf sequence of exactly one internal tree. So "v_i can follow v_j" is
just ``end(v_j) == start(v_i)``.

Vertices are numbered in heap order: root 0, children of v: 2v+1 and 2v+2. The paper's figures number them in-order
(left subtree, vertex, right subtree, from 1); ``Topology.inorder`` and ``Topology.heap`` convert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from torch_ctree.trees.compiling import outside_graphs

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Topology:
    """The vertices of the complete tree of one depth. Get it from ``topology``, which caches it."""

    depth: int
    starts: Integers
    """(V,) left end of each vertex's interval."""
    ends: Integers
    """(V,) right end of each vertex's interval."""
    ending_at: Integers
    """(2^D + 1, D + 1) the vertices whose interval ends at each position, deepest first, padded with −1."""
    inorder: Integers
    """(V,) heap index → in-order number, counted from 0 (the paper's figures count from 1)."""
    heap: Integers
    """(V,) in-order number, counted from 0 → heap index."""

    @property
    def positions(self) -> int:
        """L = 2^D: the line is 0 … L; also the largest number of leaves."""
        return 1 << self.depth

    @property
    def vertices(self) -> int:
        """V = 2^(D+1) − 1."""
        return (2 << self.depth) - 1

    @outside_graphs
    def on(self, device: torch.device) -> TopologyTensors:
        """The same numbers as tensors on a device, cached."""
        return _tensors(self.depth, device)


@dataclass(frozen=True, eq=False)
class TopologyTensors:
    """What the torch code needs of a ``Topology``, as int64 tensors on one device."""

    starts: torch.Tensor  # (V,)
    ends: torch.Tensor  # (V,)
    ending_at: torch.Tensor  # (2^D + 1, D + 1), padded with −1


def level(depth: int) -> slice:
    """The heap indices of the vertices at one depth, left to right."""
    return slice((1 << depth) - 1, (2 << depth) - 1)


def depth_for_vertices(vertices: int) -> int | None:
    """The depth D with V = 2^(D+1) − 1 vertices, or None where there is none."""
    if vertices < 1 or (vertices + 1) & vertices:
        return None
    return vertices.bit_length() - 1


def depth_for_leaves(leaves: int) -> int:
    """The smallest depth whose complete tree holds this many leaves."""
    return (leaves - 1).bit_length()


@outside_graphs
def topology(depth: int) -> Topology:
    """The complete tree of a depth as intervals; made once.

    >>> topology(2).starts.tolist(), topology(2).ends.tolist()
    ([0, 0, 2, 0, 1, 2, 3], [4, 2, 4, 1, 2, 3, 4])
    """
    if depth < 0:
        raise ValueError(f"depth: got {depth}; expected 0 or more")
    return _topology(depth)


def topology_of(per_vertex: torch.Tensor) -> Topology:
    """The tree whose vertices are a tensor's last dimension."""
    return topology(per_vertex.shape[-1].bit_length() - 1)


@cache
def _topology(depth: int) -> Topology:
    L = 1 << depth
    depths = np.repeat(np.arange(depth + 1), 1 << np.arange(depth + 1))  # (V,)
    numbers = np.arange(2 * L - 1) - ((1 << depths) - 1)  # a: place within the level
    strides = 1 << (depth - depths)
    starts, ends = numbers * strides, (numbers + 1) * strides

    ending_at = np.full((L + 1, depth + 1), -1, dtype=np.int64)
    ending_at[ends, depth - depths] = np.arange(2 * L - 1)

    # In-order, the vertex stands between its two subtrees: at twice the midpoint of its interval.
    inorder = starts + ends - 1
    tree = Topology(depth, starts, ends, ending_at, inorder, np.argsort(inorder))
    for array in (tree.starts, tree.ends, tree.ending_at, tree.inorder, tree.heap):
        array.setflags(write=False)
    return tree


@cache
def _tensors(depth: int, device: torch.device) -> TopologyTensors:
    tree = topology(depth)
    # Cached tensors outlive the caller's mode: one born in inference mode could never be saved for a backward pass.
    with torch.inference_mode(False):
        return TopologyTensors(
            *(torch.tensor(array, device=device) for array in (tree.starts, tree.ends, tree.ending_at))
        )


def brackets(vertices: Sequence[int]) -> list[int] | int:
    """Nest leaf numbers 0 … N−1 into the full binary tree whose leaves are these heap indices, left to right.

    >>> brackets([3, 4, 2])
    [[0, 1], 2]
    """
    unpaired: list[tuple[int, list | int]] = []
    for n, leaf in enumerate(vertices):
        vertex, tree = leaf, n
        while unpaired and vertex % 2 == 0 and unpaired[-1][0] == vertex - 1:  # a right child after its left sibling
            vertex, tree = (vertex - 2) // 2, [unpaired.pop()[1], tree]
        unpaired.append((vertex, tree))
    if [vertex for vertex, _ in unpaired] != [0]:
        raise ValueError(f"vertices: got {list(vertices)}; expected the leaves, left to right, of a full binary tree")
    return unpaired[0][1]


def with_ancestors(vertices: Sequence[int]) -> list[int]:
    """Leaves and all that is above them, each once, in heap order.

    >>> with_ancestors([3, 4, 2])
    [0, 1, 2, 3, 4]
    """
    found, ahead = set(vertices), list(vertices)
    while ahead:
        parent = (ahead.pop() - 1) // 2
        if parent >= 0 and parent not in found:
            found.add(parent)
            ahead.append(parent)
    return sorted(found)


def longest(lengths: torch.Tensor) -> int:
    """The width to pad sentences of these lengths to: the largest of them, and 1 at least."""
    return max(1, int(lengths.max())) if lengths.numel() else 1


def past_end(lengths: torch.Tensor, width: int) -> torch.Tensor:
    """lengths (*batch,) → bool (*batch, width): which columns lie past each sentence's end."""
    return torch.arange(width, device=lengths.device) >= lengths[..., None]


def leaves_from_mask(is_leaf: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Leaf sequences from one flag per vertex.

    is_leaf: bool (*batch, V), the leaves of one full binary tree each
    → vertices (*batch, N) in left-to-right order, padded with −1, and their number, lengths (*batch,)
    """
    batch, V = is_leaf.shape[:-1], is_leaf.shape[-1]
    tree = topology_of(is_leaf).on(is_leaf.device)
    # No two leaves start at the same place, so the start is a collision-free bucket and buckets are already sorted.
    # The other vertices go to a bucket past the line, which is then dropped.
    starts = tree.starts.expand(is_leaf.shape).masked_fill(~is_leaf, (V + 1) // 2)
    buckets = is_leaf.new_full((*batch, (V + 1) // 2 + 1), -1, dtype=torch.long)
    buckets = buckets.scatter(-1, starts, torch.arange(V, device=is_leaf.device).expand(is_leaf.shape))[..., :-1]
    filled = buckets >= 0
    lengths = filled.sum(-1)
    N = longest(lengths)
    rank = (filled.cumsum(-1) - 1).masked_fill(~filled, N)
    vertices = buckets.new_full((*batch, N + 1), -1).scatter(-1, rank, buckets)[..., :-1]
    return vertices, lengths
