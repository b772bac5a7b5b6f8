"""Reading in both directions without packing, which would have to wait for a GPU's lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torch_ctree.models import fused


class Bidirectional(nn.Module):
    """One layer of a GRU that reads each sentence forwards, and another that reads it backwards from its last word.

    inputs: their width
    width: of both directions together
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.forwards = nn.GRU(inputs, width // 2, batch_first=True)
        self.backwards = nn.GRU(inputs, width // 2, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, S, inputs), lengths (B,) → states (B, S, width), and the last states of both directions (B, width)"""
        if fused.usable(x):
            from torch_ctree.models.fused import recurrence  # noqa: PLC0415  (there may be no Triton)

            if recurrence.fits(self.forwards.hidden_size, x.shape[1]):
                with fused.at_home(x):
                    return recurrence.read(x, lengths, self.forwards, self.backwards)
        order = reversal(lengths, x.shape[1])
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(take(x, order))
        states = torch.cat([ahead, take(back, order)], -1)
        return states, torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)


def reversal(lengths: Tensor, size: int) -> Tensor:
    """(B, size): the place each token goes to when its sentence is turned round; padding stays where it is."""
    places = torch.arange(size, device=lengths.device).expand(len(lengths), -1)
    turned = lengths[:, None] - 1 - places
    return torch.where(turned >= 0, turned, places)


class _Take(torch.autograd.Function):
    """See ``take``. The derivative of indexing adds, which on a GPU is slow or in no fixed order; this one indexes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, order: Tensor) -> Tensor:
        return x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return take(grad, *ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return take(tangent, *ctx.saved_tensors)


def take(x: Tensor, order: Tensor) -> Tensor:
    """x (B, S, H), order (B, S), its own inverse → x with its tokens in that order."""
    return _Take.apply(x, order)  # pyright: ignore[reportReturnType]


def at_end(x: Tensor, lengths: Tensor) -> Tensor:
    """x (B, S, H), lengths (B,) → (B, H): at each sentence's last token."""
    elsewhere = torch.arange(x.shape[1], device=x.device) != lengths[:, None] - 1
    return x.masked_fill(elsewhere[..., None], 0).sum(1)


def real(lengths: Tensor, size: int) -> Tensor:
    """(B, size): True at tokens of the sentence."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]
