"""log m(v) in a kernel: as in plain operations."""

import pytest
import torch

from torch_ctree import TreePrior
from torch_ctree.devices import triton_runs

factors = pytest.importorskip("torch_ctree.trees.factors")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")


def plain(leaf_logits):
    return TreePrior(leaf_logits, validate_args=False)._log_m()


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_values_and_gradients(depth):
    logits = (3 * torch.randn(2, 2, (2 << depth) - 1, device=DEVICE)).requires_grad_()
    upstream = torch.randn(logits.shape, device=DEVICE)
    found, expected = factors.log_m(logits, plain), plain(logits)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, logits, upstream, retain_graph=True) for value in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_certain_choices():
    logits = torch.tensor([[torch.inf, 0.0, -torch.inf, 0.0, 0.0, 0.0, 0.0]], device=DEVICE)
    torch.testing.assert_close(factors.log_m(logits, plain), plain(logits))


def test_every_number_is_written(monkeypatch):
    logits = torch.randn(3, 15, device=DEVICE).requires_grad_()
    (expected,) = torch.autograd.grad(plain(logits).sin().sum(), logits)
    empty = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x: empty(x).fill_(torch.nan))
    (found,) = torch.autograd.grad(factors.log_m(logits, plain).sin().sum(), logits)
    torch.testing.assert_close(found, expected)


def test_second_derivatives():
    logits = torch.randn(1, 7, device=DEVICE).requires_grad_()

    def curvature(log_m):
        (slope,) = torch.autograd.grad(log_m.exp().sum(), logits, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), logits)[0]

    torch.testing.assert_close(curvature(factors.log_m(logits, plain)), curvature(plain(logits)))
