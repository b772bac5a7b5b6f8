"""Reading in both directions without packing, which would have to wait for a GPU's lengths."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
        order = reversal(lengths, x.shape[1])
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(take(x, order))
        last = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return torch.cat([ahead, take(back, order)], -1), last


def reversal(lengths: Tensor, size: int) -> Tensor:
    """(B, size): the place each token goes to when its sentence is turned round; padding stays where it is."""
    places = torch.arange(size, device=lengths.device).expand(len(lengths), -1)
    turned = lengths[:, None] - 1 - places
    return torch.where(turned >= 0, turned, places)


def take(x: Tensor, order: Tensor) -> Tensor:
    """x (B, S, H), order (B, S) → x with its tokens in that order."""
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))


def at_end(x: Tensor, lengths: Tensor) -> Tensor:
    """x (B, S, H), lengths (B,) → (B, H): at each sentence's last token."""
    return x[torch.arange(len(x), device=x.device), lengths - 1]


def real(lengths: Tensor, size: int) -> Tensor:
    """(B, size): True at tokens of the sentence."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]
