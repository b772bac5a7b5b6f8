"""LaNMT (Shu et al., 2020): all words at once, given Gaussian vectors, one for each word of the source."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.data import Encoder
from torch_ctree.models import fused
from torch_ctree.models.attention import Attention, seen
from torch_ctree.models.configuration import Context, ModelConfig
from torch_ctree.models.decoders.decoder import Decoded, Decoder, chosen_depth
from torch_ctree.models.decoders.gaussian import Gaussian, fixed_noise
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.output import output_layer
from torch_ctree.models.transformer import Layer, positions, seeing_all
from torch_ctree.trees.checks import check_count
from torch_ctree.trees.kernels.torch import in_accumulation_dtype

FARTHEST = 50
"""By so many words a target is longer or shorter than its source; all that differ by more are as probable as that."""
DRAWS = 16
"""Of latents, for a score."""


class Target(NamedTuple):
    """What is said, and how far."""

    tokens: Tensor  # (B, N)
    lengths: Tensor  # (B,)

    @property
    def mask(self) -> Tensor:
        """(B, N): True at words of the target."""
        return torch.arange(self.tokens.shape[1], device=self.lengths.device) < self.lengths[:, None]


class Stack(nn.Module):
    """``decoder_layers`` layers in which every place sees every other, and something else, if that is given."""

    def __init__(self, config: ModelConfig, with_source: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, with_source) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x: Tensor, mask: Tensor, source: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """x (B, Q, H), mask (B, Q), the other's states (B, P, H) and mask (B, P) → (B, Q, H)"""
        return self.norm(seeing_all(self.layers, x, mask, source))


class LaNMT(Decoder):
    """p(target | source) = ∫ p(z | source) p(length | z) p(words | z, length, source) dz

    The latents z, ``config.latent`` numbers for each word of the source, hold what the words of the target have to
    agree about: given z and the length, they are independent, and all are said at once.

    It learns by the evidence lower bound, with z from a posterior q(z | source, target). How far q is from the prior
    costs nothing up to ``config.free_bits`` nats for each word of the source, or q would soon say nothing. In the first
    half of ``config.free_bits_steps`` training steps that stays so, in the second it falls to 0; by default it stays.

    It answers without chance: z is the mean of the prior, then the most probable length, and words. Then, for
    ``config.refinements`` times, z is the mean of the posterior of this answer, and the rest again.
    """

    steps: Tensor

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        width, latent = config.width, config.latent
        self.depth, self.refinements, self.latent = config.depth, config.refinements, latent
        self.free_bits, self.free_bits_steps = config.free_bits, config.free_bits_steps
        self.context: Context = config.context
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))  # of training, on the device: graphs count on
        self.embedding = nn.Embedding(words, width)
        self.target = Stack(config, with_source=False)
        self.prior, self.posterior = Stack(config, with_source=False), Stack(config, with_source=True)
        self.from_prior, self.from_posterior = nn.Linear(width, 2 * latent), nn.Linear(width, 2 * latent)
        self.widen = nn.Linear(latent, width)
        self.length = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * FARTHEST + 1))
        self.log_reach = nn.Parameter(torch.zeros(()))
        self.words = Stack(config, with_source=True)
        attention = Attention(width, config.attention_dropout)
        self.output = output_layer(config, words, source_words, attention)
        self.attention = attention if self.output.needs_contexts else None
        self.dropout = Dropout(config.dropout)

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """To the output layer."""
        self.output.introduce(source, target)

    # --- learning -----------------------------------------------------------------------------------------------------

    def objective(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> Tensor:
        """In training the evidence lower bound from one draw, where some divergence is free, (B,); else the score."""
        if not self.training:
            return self.score(encoding, tokens, lengths)
        target = Target(tokens, lengths)
        prior, posterior = self.prior_of(encoding), self.posterior_of(encoding, target)
        latents = posterior.at(torch.randn_like(posterior.mean))
        said = self.log_joint(encoding, latents, target, 1 << chosen_depth(None, self.depth))
        divergence = torch.maximum(posterior.divergence(prior), self.budget())
        self.steps += 1
        return said - divergence.masked_fill(~encoding.mask, 0).sum(1)

    def budget(self) -> Tensor:
        """How much divergence is free at this step, for each word of the source: ()"""
        share = torch.ones((), device=self.steps.device)
        if self.free_bits_steps is not None:
            share = (2 - 2 * self.steps / self.free_bits_steps).clamp(0, 1)
        return self.free_bits * share

    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        """A lower bound on log p(target | source): tokens (B, N), lengths (B,) → (B,)

        log of the mean of p(target, z | source) / q(z | source, target) over ``DRAWS`` draws of z from q (Burda et al.,
        2016). The mean is an unbiased estimate of p(target | source), so that its logarithm is too low on average, and
        by more than t nats too high with a probability of e^−t at most. The draws are always the same: what a pair's
        bound is depends on nothing but the pair.
        """
        target, longest = Target(tokens, lengths), 1 << chosen_depth(depth, self.depth)
        prior, posterior = self.prior_of(encoding), self.posterior_of(encoding, target)
        weights = []
        for noise in fixed_noise(DRAWS, encoding.mask.shape[1], self.latent, posterior.mean):
            latents = posterior.at(noise)
            ratio = (prior.log_density(latents) - posterior.log_density(latents)).masked_fill(~encoding.mask, 0)
            weights.append(self.log_joint(encoding, latents, target, longest) + ratio.sum(1))
        bound = torch.stack(weights).logsumexp(0) - math.log(DRAWS)
        return torch.where(lengths <= longest, bound, -math.inf)

    # --- answers ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The answers of the k most probable lengths: (k, B, …), best first by log p(answer | z, source)

        All have the same latents, those that refining the most probable length's answer led to. A length has one
        answer, and so there are 2^depth at most.
        """
        check_count("k", k)
        if max_length is not None:
            check_count("max_length", max_length)
        longest = 1 << chosen_depth(depth, self.depth)
        latents = self.prior_of(encoding).mean
        for _ in range(self.refinements):
            lengths = self.log_lengths(latents, encoding.mask, longest)[:, :max_length].argmax(1) + 1
            answer = Target(self.log_words(encoding, latents, lengths, int(lengths.max())).argmax(-1), lengths)
            latents = self.posterior_of(encoding, answer).mean
        log_lengths = self.log_lengths(latents, encoding.mask, longest)[:, :max_length]
        log_probs, places = log_lengths.topk(min(k, log_lengths.shape[1]))
        lengths = places.T + 1  # (k, B)
        found = [self.log_words(encoding, latents, some, int(lengths.max())).max(-1) for some in lengths]
        tokens = torch.stack([words for _, words in found])
        past = torch.arange(tokens.shape[-1], device=lengths.device) >= lengths[..., None]
        log_probs = log_probs.T + torch.stack([sure for sure, _ in found]).masked_fill(past, 0).sum(-1)
        return _ranked(tokens, lengths, log_probs, k)

    # --- its parts ----------------------------------------------------------------------------------------------------

    def prior_of(self, encoding: Encoding) -> Gaussian:
        """p(z | source), (B, S, D)"""
        return _gaussian(self.from_prior, self.prior(encoding.contextual, encoding.mask))

    def posterior_of(self, encoding: Encoding, target: Target) -> Gaussian:
        """q(z | source, target), (B, S, D)"""
        words = self.embedding(target.tokens)
        read = self.target(self.dropout(words + positions(0, words.shape[1], words)), target.mask)
        return _gaussian(self.from_posterior, self.posterior(encoding.contextual, encoding.mask, (read, target.mask)))

    def log_joint(self, encoding: Encoding, latents: Tensor, target: Target, longest: int) -> Tensor:
        """log p(length, words | z, source), (B,); of a length that is not possible, anything"""
        log_lengths = self.log_lengths(latents, encoding.mask, longest)
        length = log_lengths.gather(1, target.lengths[:, None].clamp_max(longest) - 1)[:, 0]
        log_words = self.log_words(encoding, latents, target.lengths, target.tokens.shape[1])
        words = log_words.gather(-1, target.tokens[..., None])[..., 0]
        return length + words.masked_fill(~target.mask, 0).sum(1)

    def log_lengths(self, latents: Tensor, mask: Tensor, longest: int) -> Tensor:
        """log p(length | z) of 1, …, longest words, (B, longest): by how much longer than the source that is"""
        source = mask.sum(1, keepdim=True)
        mean = self.widen(latents).masked_fill(~mask[..., None], 0).sum(1) / source
        logits = in_accumulation_dtype(self.length(mean))  # (B, 2 · FARTHEST + 1)
        longer = torch.arange(1, longest + 1, device=mask.device) - source
        return logits.gather(1, longer.clamp(-FARTHEST, FARTHEST) + FARTHEST).log_softmax(-1)

    def log_words(self, encoding: Encoding, latents: Tensor, lengths: Tensor, count: int) -> Tensor:
        """log p(word | z, length, source) at ``count`` places, (B, N, K)"""
        there = torch.arange(count, device=lengths.device) < lengths[:, None]
        x = self.widen(stretched(latents, encoding.mask, lengths, count, self.log_reach.exp()))
        x = self.dropout(x + positions(0, count, x))
        states = self.words(x, there, seen(encoding, self.context))
        contexts = None
        if self.attention is not None:
            with fused.small(encoding.root):
                nodes = self.attention.over(encoding, self.context)
            contexts = self.attention(states, nodes)
        return in_accumulation_dtype(self.output.logits(states, contexts, encoding)).log_softmax(-1)


def stretched(latents: Tensor, mask: Tensor, lengths: Tensor, count: int, reach: Tensor) -> Tensor:
    """As many latents as the target has words: each is an average around the place as far on in the source.

    softmax_s of −(s − |x| / |y| · n)² / 2σ², where s and n count places from a half.

    latents: (B, S, D), real where the mask (B, S) is
    lengths: of targets, (B,)
    count: of places, N; what comes past a target's length means nothing
    reach: σ, ()
    """
    like = {"dtype": latents.dtype, "device": latents.device}
    places, sources = (torch.arange(size, **like) + 0.5 for size in (count, latents.shape[1]))
    stretch = mask.sum(1).to(latents.dtype) / lengths  # (B,)
    distance = (sources - (stretch[:, None] * places)[..., None]) / reach  # (B, N, S)
    return (-distance.square() / 2).masked_fill(~mask[:, None], -math.inf).softmax(-1) @ latents


def _gaussian(layer: nn.Linear, states: Tensor) -> Gaussian:
    """states (…, H), 2D numbers of each: means, and deviations before they are made positive"""
    with fused.at_home(states):  # in full precision: what is between two Gaussians grows with the square of any error
        mean, raw = layer(states.to(layer.weight.dtype)).chunk(2, -1)
    return Gaussian(mean, nn.functional.softplus(raw).log())


def _ranked(tokens: Tensor, lengths: Tensor, log_probs: Tensor, k: int) -> Decoded:
    """(n, B, …), n ≤ k → (k, B, …), best first; where there are no more, no answer."""
    log_probs, order = log_probs.sort(dim=0, descending=True, stable=True)
    tokens, lengths = tokens.gather(0, order[..., None].expand_as(tokens)), lengths.gather(0, order)
    missing = (0, 0, 0, k - len(lengths))
    log_probs = nn.functional.pad(log_probs, missing, value=-math.inf)
    return Decoded(nn.functional.pad(tokens, (0, 0, *missing)), nn.functional.pad(lengths, missing), log_probs)
