"""OM-Seq Cell: the tree's production function, used from left to right."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models import fused
from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.decoder import Decoded
from torch_ctree.models.decoders.sequence import Places, SequenceDecoder, State, Step
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.expanding import expanded
from torch_ctree.models.production import Production

FIRST = 32
"""So many places are looked at before it is asked whether an answer can be longer."""


class ProductionSequence(SequenceDecoder):
    """Each state has two children: the left one says a word, the right one is the next state.

    This is the tree decoder with its tree fixed, always branching to the right; a state that is a leaf ends the
    sentence. As in the tree, a word does not see those before it.
    """

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.activation = Activation(config.width)
        self.root = nn.Linear(config.width, config.width)
        self.production = Production(config.width, self.activation)

    def begin(self, encoding: Encoding) -> State:
        """A state and its context, as the root of the tree has them."""
        with fused.small(encoding.root):
            return self.activation(self.root(encoding.root)), encoding.root

    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""
        hidden, context = state
        over = self.leaf.logit(hidden[:, None], context[:, None], self.dropout)
        said, following = self.production(self.dropout(hidden), context).unbind(1)
        after = following, self.attention(following[:, None], nodes)[:, 0]
        return Step(after, Places(said[:, None], None, over))

    def forced(self, encoding: Encoding, words: Tensor, nodes: Memory) -> Places:
        """All words in one call: (B, N) → N places"""
        (root, context), steps = self.begin(encoding), words.shape[1]
        found = expanded(
            self.production, self.attention, self.leaf, root, context, nodes, steps, self.dropout.p, chain=True
        )
        if found is None:
            return super().forced(encoding, words, nodes)
        states, logits, _ = found  # of the root, and of two children of it and of each right one
        return Places(states[:, 1::2], None, logits[:, : 2 * steps : 2])

    @torch.no_grad()
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best of a beam search: (k, B, …); with a beam of one, many places are looked at together."""
        if (k, self.beam) != (1, 1):
            return super().topk(encoding, k, max_length, depth)
        longest, most = self.longest(depth), self.most(max_length, depth)
        nodes, places = self.nodes(encoding), min(FIRST, most + 1)
        while True:
            before = encoding.tokens.new_empty(len(encoding.root), places)  # which no word sees
            found = self.forced(encoding, before, nodes)
            log_probs = self.log_probs(found, encoding, nodes, 0, longest)
            ends, (best, words) = log_probs[..., -1], log_probs[..., :-1].max(-1)  # (B, places) each
            over = ends > best
            over[:, most:] = True  # no room for more words
            if bool(over.any(-1).all()):
                break
            places = min(2 * places, most + 1)
        lengths = over.int().argmax(-1)  # the first place where it is over
        log_prob = nn.functional.pad(best.cumsum(-1), (1, -1)) + ends  # of so many words and no more
        return Decoded(words[None, :, : lengths.max()], lengths[None], log_prob.gather(1, lengths[:, None]).T)
