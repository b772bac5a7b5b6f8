"""The bidirectional layer in two kernels: what torch's GRUs compute, forwards and backwards."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torch_ctree.devices import triton_runs
from torch_ctree.models import ModelConfig, fused
from torch_ctree.models.encoders.birnn import BiRNN
from torch_ctree.models.encoders.contextualiser import Contextualiser
from torch_ctree.models.encoders.recurrence import Bidirectional, at_end, reversal, take

recurrence = pytest.importorskip("torch_ctree.models.fused.recurrence")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")

WANTED = (True, True), (True, False), (False, True)


def outcome(layer: Bidirectional, x: Tensor, lengths: Tensor, on: bool, wanted: tuple[bool, bool]) -> dict[str, Tensor]:
    """What the layer gives, and the gradients of something that depends on it everywhere, padding too.

    wanted: whether on the states, and on the last ones
    """
    with fused.switched(on):
        found = layer(x, lengths)
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(tensor.shape, generator=generator).to(DEVICE) for tensor in found]
    of = {"x": x, **dict(layer.named_parameters())}
    goal = sum((up * tensor).sum() for up, tensor, there in zip(upstream, found, wanted, strict=True) if there)
    assert isinstance(goal, Tensor)
    grads = torch.autograd.grad(goal, list(of.values()))
    return {"states": found[0], "last": found[1], **dict(zip(of, grads, strict=True))}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=2e-4, rtol=1e-3, msg=lambda said, n=name: f"{n}: {said}")


def a_layer(inputs: int, units: int) -> Bidirectional:
    return Bidirectional(inputs, 2 * units).to(DEVICE)


def some(batch: int, size: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Sentences of all lengths, in a random order: x (B, S, inputs), lengths (B,)"""
    lengths = (torch.randperm(batch) % size + 1).to(DEVICE)
    return torch.randn(batch, size, inputs, device=DEVICE).requires_grad_(), lengths


@pytest.fixture(autouse=True)
def _exact():
    """cuDNN's products in full precision, where it is the one to compare with."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("units", [16, 32])
@pytest.mark.parametrize(("batch", "size"), [(1, 1), (1, 6), (5, 6), (18, 6), (18, 1)])
def test_as_the_modules(batch, size, units):
    layer, (x, lengths) = a_layer(7, units), some(batch, size, 7)
    assert_same(*(outcome(layer, x, lengths, on, (True, True)) for on in (True, False)))


@pytest.mark.parametrize("wanted", WANTED[1:])
def test_gradients_of_a_part(wanted):
    layer, (x, lengths) = a_layer(16, 16), some(5, 4, 16)
    assert_same(*(outcome(layer, x, lengths, on, wanted) for on in (True, False)))


@pytest.mark.parametrize("wanted", WANTED)
def test_every_number_is_written(poison, wanted):
    layer, (x, lengths) = a_layer(16, 16), some(5, 4, 16)
    plain = outcome(layer, x, lengths, False, wanted)
    poison()
    assert_same(outcome(layer, x, lengths, True, wanted), plain)


def test_whatever_way_tensors_lie_in_memory():
    layer, (x, lengths) = a_layer(16, 16), some(5, 4, 16)
    turned = x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    spread = lengths.to(torch.int32).repeat_interleave(2)[::2]
    with fused.switched(True):
        states, last = layer(turned, spread)
        (grad,) = torch.autograd.grad(states.sum(), turned)  # a gradient that is one number, expanded
    with fused.switched(False):
        expected, expected_last = layer(x, lengths)
        torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), x)[0], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close((states, last), (expected, expected_last), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("units", "calls"), [(8, 0), (16, 1), (24, 0), (128, 0)])
def test_what_does_not_fit_goes_the_plain_way(monkeypatch, units, calls):
    assert recurrence.fits(units, 3) == bool(calls)
    count, read = [], recurrence.read
    monkeypatch.setattr(recurrence, "read", lambda *a: (count.append(1), read(*a))[1])
    layer, (x, lengths) = a_layer(4, units), some(2, 3, 4)
    for on, expected in ((False, 0), (True, calls)):
        with fused.switched(on):
            layer(x, lengths)
        assert len(count) == expected
    assert not recurrence.fits(64, 1 << 18)


@pytest.mark.parametrize("name", ["contextualiser", "birnn"])
def test_in_the_encoders_while_evaluating(name):
    """Also what cuDNN refuses: a gradient while evaluating. The comparison has to train, then; nothing is dropped."""
    config = ModelConfig(width=32, layers=2, dropout=0.0)
    encoder = Contextualiser(config) if name == "contextualiser" else BiRNN(config, 5)
    found = [_encoded(copy.deepcopy(encoder).to(DEVICE).train(not on), on) for on in (True, False)]
    assert_same(*found)


def _encoded(encoder: nn.Module, on: bool) -> dict[str, Tensor]:
    generator, lengths = torch.Generator().manual_seed(2), torch.tensor([4, 1, 3], device=DEVICE)
    with fused.switched(on):
        if isinstance(encoder, BiRNN):
            tokens = torch.randint(5, (3, 4), generator=generator).to(DEVICE)
            encoding = encoder(tokens, lengths)
            outputs = {"root": encoding.root, "states": encoding.contextual}
        else:
            outputs = {"states": encoder(torch.randn(3, 4, 32, generator=generator).to(DEVICE), lengths)}
    torch.stack([output.sin().sum() for output in outputs.values()]).sum().backward()
    grads = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    return outputs | {name: grad for name, grad in grads.items() if grad is not None}


def test_without_gradients():
    layer, (x, lengths) = a_layer(16, 16), some(3, 4, 16)
    found: list[Any] = []
    for on in (True, False):
        with fused.switched(on), torch.no_grad():
            found.append(layer(x, lengths))
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-3)
    assert not found[0][0].requires_grad


# --- the plain way ----------------------------------------------------------------------------------------------------

LENGTHS = torch.tensor([4, 1, 3])


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own derivatives forwards
def test_derivatives_of_turning_and_of_the_end():
    x, order = torch.randn(3, 4, 2, dtype=torch.double, requires_grad=True), reversal(LENGTHS, 4)
    for function in (lambda x: take(x, order), lambda x: at_end(x, LENGTHS)):
        assert torch.autograd.gradcheck(function, x, check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(function, x)


def test_turning_under_vmap():
    x, order = torch.randn(2, 3, 4, 2), reversal(LENGTHS, 4)
    grads = torch.func.vmap(torch.func.grad(lambda x: take(x, order).sin().sum()))(x)
    torch.testing.assert_close(grads, x.cos())
    orders = torch.stack([order, order.flip(0)])
    expected = torch.stack([take(*pair) for pair in zip(x, orders, strict=True)])
    assert torch.equal(torch.func.vmap(take)(x, orders), expected)
