"""Decoders that go from left to right, one word after the other: the baselines."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from torch_ctree.data import Encoder
from torch_ctree.models import fused
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.configuration import Context, ModelConfig
from torch_ctree.models.decoders.beam import Beams
from torch_ctree.models.decoders.decoder import Decoded, Decoder, chosen_depth
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.errors import ModelError
from torch_ctree.models.leaf import Leaf
from torch_ctree.models.output import MLP, output_layer
from torch_ctree.trees.checks import check_count
from torch_ctree.trees.kernels.torch import in_accumulation_dtype

State = tuple[Tensor, ...]
"""What a decoder remembers, each (B, …)."""


class Places(NamedTuple):
    """Where words are said, N of them."""

    features: Tensor
    """(B, N, H): what the word is read from."""
    contexts: Tensor | None
    """(B, N, H): what the features attend to, where that is known."""
    over: Tensor
    """(B, N): the logit that the sentence is over before this word."""


class Step(NamedTuple):
    """One word further."""

    state: State
    place: Places


class SequenceDecoder(Decoder):
    """p(target | source) = Π p(word | source, words before).

    Word number ``words`` is the end of the sentence, and what the first word follows. There is always a first word, and
    after 2^depth words always the end: sentences are those that a tree could have, and their probabilities sum to one.

    Whether a sentence is over is asked first, of a state and its context, as the tree asks whether a vertex is a leaf;
    the output layer has to do with words alone. Lexical attention could not tell: of a source of one word it has one
    answer at every place.
    """

    takes: ClassVar[tuple[str, ...]] = ("label_smoothing",)
    goes_by: ClassVar[tuple[str, ...]] = ("beam", "length_penalty")

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        self.depth, self.end, self.smoothing = config.depth, words, config.label_smoothing
        self.search_by(config)
        self.context: Context = config.context
        self.attention = Attention(config.width, config.attention_dropout)
        self.leaf = Leaf(config.width)
        self.output = output_layer(config, words, source_words, self.attention)
        self.dropout = Dropout(config.dropout)

    def search_by(self, config: ModelConfig) -> None:
        """The width of the beam, and what it prefers."""
        self.beam, self.penalty = config.beam, config.length_penalty

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """To the output layer."""
        self.output.introduce(source, target)

    @abstractmethod
    def begin(self, encoding: Encoding) -> State:
        """The state before the first word."""

    @abstractmethod
    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""

    def forced(self, encoding: Encoding, words: Tensor, nodes: Memory) -> Places:
        """Every place of given targets: words (B, N), each the one before → N places"""
        state, found = self.begin(encoding), []
        for word in words.unbind(1):
            state, place = self.step(state, word, nodes)
            found.append(place)
        features, contexts, over = zip(*found, strict=True)
        known = None if contexts[0] is None else torch.cat(contexts, 1)
        return Places(torch.cat(features, 1), known, torch.cat(over, 1))

    def place(self, features: Tensor, nodes: Memory) -> Places:
        """Where features, with what they attend to, tell whether the sentence is over: (B, N, H) → N places"""
        contexts = self.attention(features, nodes)
        return Places(features, contexts, self.leaf.logit(features, contexts, self.dropout))

    def nodes(self, encoding: Encoding) -> Memory:
        """What a state attends to."""
        with fused.small(encoding.root):
            return self.attention.over(encoding, self.context)

    def longest(self, depth: int | None) -> int:
        """2^depth words."""
        return 1 << chosen_depth(depth, self.depth)

    def most(self, max_length: int | None, depth: int | None) -> int:
        """How many words an answer may have."""
        if max_length is None:
            return self.longest(depth)
        check_count("max_length", max_length)
        return min(max_length, self.longest(depth))

    def log_probs(self, places: Places, encoding: Encoding, nodes: Memory, first: int, longest: int) -> Tensor:
        """places (B, N) of words number first, first + 1, … → log p(word), (B, N, words + 1)"""
        features, contexts, over = places
        if contexts is None and self.output.needs_contexts:
            contexts = self.attention(features, nodes)
        words = in_accumulation_dtype(self.output.logits(features, contexts, encoding)).log_softmax(-1)
        over = in_accumulation_dtype(over)[..., None]
        number = torch.arange(first, first + over.shape[1], device=over.device)[:, None]
        begins, full = number == 0, number >= longest
        ends = logsigmoid(over).masked_fill(begins, -math.inf).masked_fill(full, 0)
        goes_on = logsigmoid(-over).masked_fill(begins, 0).masked_fill(full, -math.inf)
        return torch.cat([words + goes_on, ends], -1)

    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        """log p(target | source): tokens (B, N), lengths (B,) → (B,)"""
        return self._learned(encoding, tokens, lengths, depth, 0.0)

    def objective(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The score, with smooth labels where the model is to have them: (B,)"""
        return self._learned(encoding, tokens, lengths, None, self.smoothing)

    def _learned(
        self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None, smoothing: float
    ) -> Tensor:
        """Σ log p(word), of which ``smoothing`` is shared evenly by all words that could stand there: (B,)"""
        number = torch.arange(tokens.shape[1] + 1, device=tokens.device)
        after = number >= lengths[:, None]  # (B, N + 1)
        said = nn.functional.pad(tokens, (0, 1)).masked_fill(after, self.end)
        before = nn.functional.pad(said[:, :-1], (1, 0), value=self.end)
        nodes = self.nodes(encoding)
        log_probs = self.log_probs(self.forced(encoding, before, nodes), encoding, nodes, 0, self.longest(depth))
        found = log_probs.gather(-1, said[..., None])[..., 0]
        if smoothing:
            possible = log_probs > -math.inf
            evenly = log_probs.where(possible, 0).sum(-1) / possible.sum(-1)
            found = (1 - smoothing) * found + smoothing * evenly
        return found.masked_fill(number > lengths[:, None], 0).sum(-1)

    @torch.no_grad()
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best of a beam search (not necessarily the best of all): (k, B, …)"""
        check_count("k", k)
        longest, most = self.longest(depth), self.most(max_length, depth)
        beams = Beams(len(encoding.root), max(k, self.beam), self.end, encoding.root, self.penalty)
        wide = _repeated(encoding, max(k, self.beam))  # beams of a sentence side by side: (B · W, …)
        nodes, state = self.nodes(wide), self.begin(wide)
        for n in range(most):
            state, place = self.step(state, beams.words, nodes)
            beams.extend(self.log_probs(place, wide, nodes, n, longest)[:, 0])
            state = tuple(beams.follow(part) for part in state)
            if bool(beams.over.all()):
                return beams.best(k)
        place = self.step(state, beams.words, nodes).place
        beams.finish(self.log_probs(place, wide, nodes, most, longest)[:, 0, self.end])
        return beams.best(k)


class Reading(SequenceDecoder):
    """A decoder that reads the words before; where it is ``tied``, by the vectors of its output layer."""

    takes: ClassVar[tuple[str, ...]] = (*SequenceDecoder.takes, "tied")

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        if config.tied and not isinstance(self.output, MLP):
            raise ModelError(f"tied: got true with the output {config.output!r}; expected it with 'mlp' or 'copy'")
        self.embedding = nn.Embedding(1 if config.tied else words + 1, config.width)  # tied: of the end alone

    def read(self, words: Tensor) -> Tensor:
        """(B, N) → (B, N, H)"""
        if self.embedding.num_embeddings > 1:
            return self.embedding(words)
        assert isinstance(self.output, MLP)
        weight = self.output.words.weight  # its numbers are small, as an output layer's have to be
        found = math.sqrt(weight.shape[1]) * nn.functional.embedding(words.clamp_max(self.end - 1), weight)
        return torch.where((words == self.end)[..., None], self.embedding.weight, found)


def _repeated(encoding: Encoding, times: int) -> Encoding:
    """Every source so many times, one beside the other."""
    fields = ("root", "internal", "leaves", "contextual", "embeddings", "tokens", "mask")
    return type(encoding)(*(getattr(encoding, name).repeat_interleave(times, dim=0) for name in fields))
