"""Decoders that go from left to right, one word after the other: the baselines."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.decoder import Decoded, Decoder, chosen_depth
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.output import output_layer
from torch_ctree.trees.checks import check_count
from torch_ctree.trees.kernels.torch import in_accumulation_dtype

State = tuple[Tensor, ...]
"""What a decoder remembers, each (B, …)."""


class Step(NamedTuple):
    """One word further."""

    state: State
    features: Tensor
    """(B, 1, H): what the word is read from."""


class SequenceDecoder(Decoder):
    """p(target | source) = Π p(word | source, words before).

    Word number ``words`` is the end of the sentence, and what the first word follows. There is always a first word, and
    after 2^depth words always the end: sentences are those that a tree could have, and their probabilities sum to one.
    """

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        self.depth, self.beam, self.end = config.depth, config.beam, words
        self.embedding = nn.Embedding(words + 1, config.width)
        self.attention = Attention(config.width, config.attention_dropout)
        self.output = output_layer(config, words + 1, source_words, self.attention)
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def begin(self, encoding: Encoding) -> State:
        """The state before the first word."""

    @abstractmethod
    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""

    def forced(self, encoding: Encoding, words: Tensor, nodes: Memory) -> Tensor:
        """The features at every word of given targets: words (B, N), each the one before → (B, N, H)"""
        state, found = self.begin(encoding), []
        for word in words.unbind(1):
            state, features = self.step(state, word, nodes)
            found.append(features)
        return torch.cat(found, 1)

    def nodes(self, encoding: Encoding) -> Memory:
        """What a state attends to."""
        return self.attention.memory(encoding.nodes, encoding.nodes, encoding.nodes_mask)

    def longest(self, depth: int | None) -> int:
        """2^depth words."""
        return 1 << chosen_depth(depth, self.depth)

    def log_probs(self, features: Tensor, encoding: Encoding, nodes: Memory, first: int, longest: int) -> Tensor:
        """features (B, N, H) of words number first, first + 1, … → log p(word), (B, N, words + 1)"""
        contexts = self.attention(features, nodes) if self.output.needs_contexts else None
        logits = in_accumulation_dtype(self.output(features, contexts, encoding).logits())
        place = torch.arange(first, first + logits.shape[1], device=logits.device)[:, None]
        is_end = torch.arange(self.end + 1, device=logits.device) == self.end
        never = (is_end & (place == 0)) | (~is_end & (place >= longest))
        return logits.masked_fill(never, -math.inf).log_softmax(-1)

    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        """log p(target | source): tokens (B, N), lengths (B,) → (B,)"""
        places = torch.arange(tokens.shape[1] + 1, device=tokens.device)
        after = places >= lengths[:, None]  # (B, N + 1)
        said = nn.functional.pad(tokens, (0, 1)).masked_fill(after, self.end)
        before = nn.functional.pad(said[:, :-1], (1, 0), value=self.end)
        nodes = self.nodes(encoding)
        features = self.forced(encoding, before, nodes)
        log_probs = self.log_probs(features, encoding, nodes, 0, self.longest(depth))
        words = log_probs.gather(-1, said[..., None])[..., 0]
        return words.masked_fill(places > lengths[:, None], 0).sum(-1)

    @torch.no_grad()
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best of a beam search (not necessarily the best of all): (k, B, …)"""
        check_count("k", k)
        if max_length is not None:
            check_count("max_length", max_length)
        longest = self.longest(depth)
        most = longest if max_length is None else min(max_length, longest)
        B, width = len(encoding.root), max(k, self.beam)
        wide = _repeated(encoding, width)  # beams of a sentence side by side: (B · width, …)
        nodes, state = self.nodes(wide), self.begin(wide)
        scores = wide.root.new_full((B, width), -math.inf)
        scores[:, 0] = 0
        word = torch.full((B * width,), self.end, device=scores.device)
        said = word.new_empty(B, width, 0)
        over = torch.zeros(B, width, dtype=torch.bool, device=scores.device)
        lengths = torch.zeros_like(over, dtype=torch.long)
        for n in range(most):
            state, features = self.step(state, word, nodes)
            log_probs = self.log_probs(features, wide, nodes, n, longest)[:, 0].unflatten(0, (B, width))
            stay = torch.full_like(log_probs, -math.inf)
            stay[..., self.end] = 0  # a finished sentence goes on as itself
            total = scores[..., None] + torch.where(over[..., None], stay, log_probs)
            scores, place = total.flatten(1).topk(width)
            parent, token = place // (self.end + 1), place % (self.end + 1)
            state = tuple(_chosen(part, parent) for part in state)
            over, lengths = over.gather(1, parent), lengths.gather(1, parent)
            said = torch.cat([said.gather(1, parent[..., None].expand_as(said)), token[..., None]], -1)
            lengths = torch.where(over | (token == self.end), lengths, n + 1)
            over = over | (token == self.end)
            word = token.flatten()
            if bool(over.all()):
                break
        scores = self._ended(scores, over, state, word, wide, nodes, most, longest)
        scores, order = scores.topk(k)
        said = said.gather(1, order[..., None].expand(-1, -1, said.shape[-1])).clamp_max(self.end - 1)
        lengths = lengths.gather(1, order).masked_fill(scores == -math.inf, 0)
        return Decoded(said.transpose(0, 1), lengths.T, scores.T)

    def _ended(
        self,
        scores: Tensor,
        over: Tensor,
        state: State,
        word: Tensor,
        encoding: Encoding,
        nodes: Memory,
        n: int,
        longest: int,
    ) -> Tensor:
        """The scores (B, width) with the end of those added that had no room left for it."""
        if bool(over.all()):
            return scores
        features = self.step(state, word, nodes).features
        end = self.log_probs(features, encoding, nodes, n, longest)[:, 0, self.end].reshape(scores.shape)
        return torch.where(over, scores, scores + end)


def _repeated(encoding: Encoding, times: int) -> Encoding:
    """Every source so many times, one beside the other."""
    fields = ("root", "internal", "leaves", "contextual", "embeddings", "tokens", "mask")
    return Encoding(*(getattr(encoding, name).repeat_interleave(times, dim=0) for name in fields))


def _chosen(part: Tensor, parent: Tensor) -> Tensor:
    """Of a state (B · width, …), that of each beam's parent (B, width)."""
    first = torch.arange(len(parent), device=parent.device)[:, None] * parent.shape[1]
    return part[(first + parent).flatten()]
