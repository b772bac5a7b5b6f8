"""Diagonal Gaussians, and numbers drawn from the standard one that never change."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ctree.data.order import Purpose, random_bits


class Gaussian(NamedTuple):
    """Of vectors of D numbers, each independent of the others."""

    mean: Tensor
    """(…, D)"""
    log_deviation: Tensor
    """(…, D): the logarithm of the standard deviation."""

    def at(self, noise: Tensor) -> Tensor:
        """Where it has what a standard Gaussian has at ``noise``, (…, D) → (…, D)"""
        return self.mean + self.log_deviation.exp() * noise

    def log_density(self, x: Tensor) -> Tensor:
        """(…, D) → (…)"""
        distance = (x - self.mean) * (-self.log_deviation).exp()
        return -(distance.square() / 2 + self.log_deviation + math.log(2 * math.pi) / 2).sum(-1)

    def divergence(self, other: Gaussian) -> Tensor:
        """KL(self ‖ other), (…)"""
        shift = (self.mean - other.mean) * (-other.log_deviation).exp()
        narrower = other.log_deviation - self.log_deviation
        return (((-2 * narrower).exp() + shift.square() - 1) / 2 + narrower).sum(-1)


def fixed_noise(count: int, places: int, width: int, like: Tensor) -> Tensor:
    """Draws from a standard Gaussian that are always the same, with their opposites: (count, places, width)

    What is drawn for a place does not depend on how many follow it.

    count: even
    like: a tensor of the dtype and on the device that they shall have
    """
    bits = random_bits(Purpose.LATENTS).random_raw(places * count // 2 * width) >> 11
    chance = (torch.from_numpy(bits.astype("float64")) + 0.5) * 2.0**-53
    half = torch.special.ndtri(chance).view(places, count // 2, width).transpose(0, 1)
    return torch.cat([half, -half]).to(like)
