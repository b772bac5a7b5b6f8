"""Whether a vertex is a leaf; in a sequence, whether it is over."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models.dropout import Dropout


class Leaf(nn.Linear):
    """A softmax of two over a linear map of [h; c], as in the paper; its weights start at zero."""

    def __init__(self, width: int) -> None:
        super().__init__(2 * width, 2)
        nn.init.zeros_(self.weight)

    def logit(self, states: Tensor, contexts: Tensor, dropout: Dropout) -> Tensor:
        """(B, Q, H) each → the logit of l_v, (B, Q)"""
        leaf, split = self(dropout(torch.cat([states, contexts], -1))).unbind(-1)
        return leaf - split

    def row(self) -> Tensor:
        """(2H + 1,): the weights and the bias that the logit has without dropout."""
        return torch.cat([self.weight[0] - self.weight[1], self.bias[:1] - self.bias[1:]])
