import pytest
import torch
from torch import nn

from torch_ctree.models.dropout import Dropout

from ..measure import chi_square_p_value


def dropped(p, shape, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.6, 0.999])
def test_each_unit_is_kept_with_its_probability(p):
    kept = dropped(p, 100_000) != 0
    assert chi_square_p_value(kept.tolist(), {True: 1 - p, False: p}) > 0.001


def test_units_are_independent():
    """Four units share a random number: any four in a row fall in each of the 16 ways as often as chance has it."""
    kept = (dropped(0.3, 200_000) != 0).reshape(-1, 4)
    for shifted in (kept, kept.flatten()[2:-2].reshape(-1, 4)):
        ways = {
            (a, b, c, d): 0.7 ** (n := a + b + c + d) * 0.3 ** (4 - n)
            for a, b, c, d in torch.cartesian_prod(*[torch.arange(2)] * 4).tolist()
        }
        assert chi_square_p_value(map(tuple, shifted.int().tolist()), ways) > 0.001


@pytest.mark.parametrize("p", [0.1, 0.6, 1 / 3, 0.999])
def test_the_mean_is_preserved_exactly(p):
    """What is kept, times how often it is kept: p is rounded to 1/65,536, and the scale is that of the rounded one."""
    scale = dropped(p, 100_000, torch.float64).max().item()
    share = 1 - round(p * 65536) / 65536
    assert share * scale == pytest.approx(1, abs=1e-12)
    assert share == pytest.approx(1 - p, abs=1 / 131072)


@pytest.mark.parametrize("p", [0.0, 0.5, 1e-7])
def test_evaluation_changes_nothing(p):
    x = torch.randn(3, 5)
    assert Dropout(p).eval()(x) is x


def test_no_dropout_draws_nothing():
    x, before = torch.randn(3, 5), torch.get_rng_state()
    assert Dropout(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("p", [1.0, 0.999_999])
def test_everything_can_be_dropped(p):
    assert dropped(p, 1000).count_nonzero() <= 1


def test_the_gradient_is_the_mask():
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    assert set(x.grad.unique().tolist()) == {0.0, 65536 / (65536 - round(0.4 * 65536))}
    assert torch.equal(x.grad * x, y)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (3,), (5,), (3, 7), (2, 0, 3), (1, 1, 13)])
def test_any_shape(shape):
    assert dropped(0.5, shape).shape == shape


def test_any_layout():
    x = torch.randn(6, 5, 4).transpose(0, 2)[::2]
    torch.manual_seed(1)
    found = Dropout(0.5)(x)
    torch.manual_seed(1)
    assert torch.equal(found, Dropout(0.5)(x.contiguous()))
    assert torch.equal(x, x.contiguous())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_any_dtype(dtype):
    found = dropped(0.5, 1000, dtype)
    assert found.dtype == dtype
    assert set(found.tolist()) == {0.0, 2.0}


def test_the_same_seed_gives_the_same_mask():
    assert torch.equal(dropped(0.5, 1001, seed=3), dropped(0.5, 1001, seed=3))
    assert not torch.equal(dropped(0.5, 1001, seed=3), dropped(0.5, 1001, seed=4))


def test_it_is_a_dropout():
    assert isinstance(Dropout(0.5), nn.Dropout)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)
