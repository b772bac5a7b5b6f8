"""Sums over rows, such as what many programs have each summed up: in two stages, so that all of a GPU works on them."""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, PARTS = 32, 128, 512


@triton.jit(do_not_specialize=["rows", "part"])
def _sum(x, out, rows, columns, part, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """x (rows, columns) → out (parts, columns): a program sums the rows of one part, some columns of them."""
    c, n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    x += (n * part).to(tl.int64) * columns
    left = tl.minimum(rows - n * part, part)
    for first in range(0, left, ROWS):
        r = first + tl.arange(0, ROWS)
        there = (r < left)[:, None] & (c < columns)[None, :]
        total += tl.load(x + r[:, None] * columns + c[None, :], mask=there, other=0.0).to(tl.float32)
    tl.store(out + n * columns + c, tl.sum(total, 0), mask=c < columns)


def column_sums(x: Tensor) -> Tensor:
    """(R, C), contiguous → (C,), float32"""
    rows, columns = x.shape
    parts = min(PARTS, triton.cdiv(rows, ROWS))
    out = x.new_empty(parts, columns, dtype=torch.float32)
    part = triton.cdiv(triton.cdiv(rows, parts), ROWS) * ROWS
    _sum[(triton.cdiv(columns, COLUMNS), parts)](x, out, rows, columns, part, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4)
    return out[0] if parts == 1 else column_sums(out)
