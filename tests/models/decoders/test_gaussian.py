import itertools
import math
from statistics import NormalDist

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from torch_ctree.data.order import Purpose, random_bits
from torch_ctree.models.decoders.gaussian import Gaussian, fixed_noise

double = torch.float64
LATENTS = Purpose.LATENTS


def some(seed: int) -> tuple[Gaussian, Normal]:
    """Two times three of five numbers, and the same of torch's."""
    mean, log_deviation = torch.randn(2, 2, 3, 5, dtype=double, generator=torch.Generator().manual_seed(seed))
    return Gaussian(mean, log_deviation), Normal(mean, log_deviation.exp())


@pytest.mark.parametrize("seed", range(3))
def test_as_those_of_torch(seed):
    (one, their_one), (other, their_other) = some(seed), some(seed + 10)
    x = torch.randn(2, 3, 5, dtype=double)
    torch.testing.assert_close(one.log_density(x), their_one.log_prob(x).sum(-1))
    torch.testing.assert_close(one.divergence(other), kl_divergence(their_one, their_other).sum(-1))
    torch.testing.assert_close(one.divergence(one), torch.zeros(2, 3, dtype=double))


def test_where_noise_leads():
    one, theirs = some(0)
    chance = torch.rand(2, 3, 5, dtype=double)
    torch.testing.assert_close(one.at(torch.special.ndtri(chance)), theirs.icdf(chance))


def test_noise_that_never_changes():
    like = torch.zeros((), dtype=double)
    noise = fixed_noise(4, 7, 3, like)
    assert torch.equal(noise, fixed_noise(4, 7, 3, like))
    for places in range(1, 7):
        assert torch.equal(fixed_noise(4, places, 3, like), noise[:, :places])
    assert torch.equal(noise[:2], -noise[2:])
    assert len(noise.abs().unique()) == 2 * 7 * 3
    drawn = [NormalDist().inv_cdf(((int(bits) >> 11) + 0.5) / 2**53) for bits in random_bits(LATENTS).random_raw(42)]
    assert noise[:2].transpose(0, 1).flatten().tolist() == pytest.approx(drawn, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_noise_of_any_dtype(dtype):
    noise = fixed_noise(2, 5, 3, torch.zeros((), dtype=dtype))
    assert noise.dtype == dtype
    assert torch.equal(noise, fixed_noise(2, 5, 3, torch.zeros((), dtype=double)).to(dtype))


def test_noise_is_gaussian():
    """Kolmogorov's distance is 1.63 / √n or more once in a hundred times; and places, draws, numbers are not alike."""
    noise = fixed_noise(16, 100, 8, torch.zeros((), dtype=double))
    drawn = noise[:8].flatten().sort().values
    shares = torch.arange(1, len(drawn) + 1, dtype=double) / len(drawn)
    assert (Normal(0, 1).cdf(drawn) - shares).abs().max() < 1.63 / math.sqrt(len(drawn))
    for one, other in itertools.combinations(noise[:8].flatten(1), 2):
        assert torch.corrcoef(torch.stack([one, other]))[0, 1].abs() < 4 / math.sqrt(800)
