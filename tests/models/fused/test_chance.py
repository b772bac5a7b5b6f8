"""Masks: the same in a kernel and in plain integers, and as many as they should be."""

import pytest
import torch

from torch_ctree.devices import triton_runs

from . import masks

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
chance = pytest.importorskip("torch_ctree.models.fused.chance")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")


@triton.jit
def draw(seed, out, PLACE: tl.constexpr, P: tl.constexpr, SIZE: tl.constexpr):  # pyright: ignore[reportInvalidTypeForm]
    unit = tl.arange(0, SIZE)
    tl.store(out + unit, chance.keep(tl.load(seed), PLACE, unit, P))


def in_a_kernel(seed, place, size, p):
    out = torch.empty(size, device=DEVICE)
    draw[(1,)](seed, out, PLACE=place, P=p, SIZE=size)
    return out.cpu()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("place", [0, 3])
def test_as_in_plain_integers(p, place):
    seed = torch.tensor([0x1234_5678_9ABC_DEF0], device=DEVICE)
    torch.testing.assert_close(in_a_kernel(seed, place, 512, p), masks.keep(seed, place, masks.grid(512), p))


def test_shares_are_right_and_seeds_and_places_differ():
    first = [
        masks.keep(torch.tensor([seed]), place, masks.grid(100_000), 0.6) > 0 for seed in (1, 2) for place in (0, 1)
    ]
    for mask in first:
        assert mask.float().mean().item() == pytest.approx(0.4, abs=0.01)
    for n, mask in enumerate(first):
        for other in first[n + 1 :]:  # as much in common as chance gives
            assert (mask & other).float().mean().item() == pytest.approx(0.16, abs=0.01)
        assert (mask[1:] & mask[:-1]).float().mean().item() == pytest.approx(0.16, abs=0.01)
