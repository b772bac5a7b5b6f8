"""Beam search: the best beginnings of every sentence, word by word."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_ctree.models.decoders.decoder import Decoded
from torch_ctree.trees.search import penalised


class Beams:
    """For each of B sentences the best beginnings, ``width`` of them, best first.

    With n tokens, the end among them, they are ranked by log p / ((5 + n) / 6)^penalty (Wu et al., 2016).

    end: the token that ends a sentence; it is also what the first word follows
    like: a tensor of the dtype and on the device of the scores
    penalty: of short sentences; 0 if log p alone counts
    """

    def __init__(self, batch: int, width: int, end: int, like: Tensor, penalty: float = 0.0) -> None:
        self.end, self.penalty = end, penalty
        self.scores = like.new_full((batch, width), -math.inf)  # log p so far, (B, W)
        self.scores[:, 0] = 0
        self.lengths = torch.zeros_like(self.scores, dtype=torch.long)  # words said, (B, W)
        self.over = torch.zeros_like(self.scores, dtype=torch.bool)  # where the end has been said, (B, W)
        self.said = self.lengths.new_empty(batch, width, 0)  # (B, W, n)
        self.parent = torch.zeros_like(self.lengths)  # which beginning each was made from, (B, W)

    @property
    def words(self) -> Tensor:
        """(B · W,): the latest of each."""
        return (self.said[..., -1] if self.said.shape[-1] else torch.full_like(self.lengths, self.end)).flatten()

    def extend(self, log_probs: Tensor) -> None:
        """One word further: log p of each next word, (B · W, end + 1)."""
        log_probs = log_probs.unflatten(0, self.scores.shape)
        stay = torch.full_like(log_probs, -math.inf)
        stay[..., self.end] = 0  # a finished sentence goes on as itself
        total = self.scores[..., None] + torch.where(self.over[..., None], stay, log_probs)
        place = self._ranks(total, self.said.shape[-1] + 1).flatten(1).topk(self.scores.shape[1]).indices
        self.scores = total.flatten(1).gather(1, place)
        self.parent, word = place // (self.end + 1), place % (self.end + 1)
        self.said = torch.cat([_taken(self.said, self.parent), word[..., None]], -1)
        self.over = self.over.gather(1, self.parent) | (word == self.end)
        self.lengths = torch.where(self.over, self.lengths.gather(1, self.parent), self.said.shape[-1])

    def finish(self, log_end: Tensor) -> None:
        """No room for more words: those that go on end here, with log p of the end, (B · W,)."""
        self.scores = torch.where(self.over, self.scores, self.scores + log_end.unflatten(0, self.scores.shape))
        self.over = torch.ones_like(self.over)

    def follow(self, state: Tensor) -> Tensor:
        """A decoder's state of each beginning's parent, (B · W, …) → that of each beginning."""
        first = torch.arange(len(self.parent), device=self.parent.device)[:, None] * self.parent.shape[1]
        return state[(first + self.parent).flatten()]

    def best(self, k: int) -> Decoded:
        """The k best, (k, B, …)."""
        order = self._ranks(self.scores[..., None], self.said.shape[-1])[..., 0].topk(k).indices
        scores = self.scores.gather(1, order)
        said = _taken(self.said, order).clamp_max(self.end - 1)
        lengths = self.lengths.gather(1, order).masked_fill(scores == -math.inf, 0)
        return Decoded(said.transpose(0, 1), lengths.T, scores.T)

    def _ranks(self, scores: Tensor, tokens: int) -> Tensor:
        """scores (B, W, …) of beginnings with so many tokens, or as many as those have that are over → (B, W, …)"""
        count = torch.where(self.over, self.lengths + 1, tokens)[..., None]
        return penalised(scores, count, self.penalty)


def _taken(said: Tensor, order: Tensor) -> Tensor:
    """said (B, W, n), order (B, k) → (B, k, n)"""
    return said.gather(1, order[..., None].expand(-1, -1, said.shape[-1]))
