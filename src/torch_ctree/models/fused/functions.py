"""What several kernels compute."""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def normalised(x, eps, H: tl.constexpr):
    """Rows (R, H) → less their mean, over their deviation; and one over the deviation (R,)."""
    centred = x - (tl.sum(x, 1) / H)[:, None]
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / H + eps)
    return centred * inverse[:, None], inverse


@triton.jit
def denormalised(grad, hat, inverse, H: tl.constexpr):
    """The derivative of ``normalised``: of its result → of x."""
    along = tl.sum(grad * hat, 1) / H
    return (grad - (tl.sum(grad, 1) / H)[:, None] - hat * along[:, None]) * inverse[:, None]


@triton.jit
def tanh(x):
    """In terms of the exponential, which is all that Triton has everywhere."""
    e = tl.exp(-2.0 * tl.abs(x))  # at most one
    return tl.where(x >= 0, 1.0, -1.0) * (1.0 - e) / (1.0 + e)
