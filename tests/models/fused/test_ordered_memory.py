"""Ordered Memory in few kernels: what the module computes, its derivatives, and every unit of dropout."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_ctree.devices import triton_runs
from torch_ctree.models import ModelConfig, fused
from torch_ctree.models.encoders.ordered_memory import OrderedMemory

from . import masks

pytest.importorskip("triton")
ordered_memory = pytest.importorskip("torch_ctree.models.fused.ordered_memory")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")

SIZES = [(2, 3, 2, 16), (3, 4, 3, 6), (2, 4, 1, 10), (17, 3, 2, 4), (1, 3, 9, 4), (1, 3, 2, 40)]
"""B, S, M, H: also widths that are no power of two, and more sentences, slots or units than one block has."""

Result = tuple[Tensor, dict[str, Tensor]]


def build(M: int, H: int, dropout: float = 0.0) -> OrderedMemory:
    """With noise on every weight: some start at zero or one."""
    model = OrderedMemory(ModelConfig(width=H, slots=M, dropout=dropout), 3).to(DEVICE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def inputs(B: int, S: int, M: int, H: int) -> tuple[Tensor, Tensor]:
    """x, and how much each candidate counts"""
    return torch.randn(B, S, H, device=DEVICE), torch.randn(B, S, M, H, device=DEVICE)


def result(model: OrderedMemory, function: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor) -> Result:
    """Candidates, and the gradients of x and every parameter."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    found = function(x)
    (found * weight).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return found.detach(), {"x": x.grad, **gradients}  # pyright: ignore[reportReturnType]


def kernels(model: OrderedMemory, x: Tensor) -> Tensor:
    with fused.switched(True):
        return model.candidates(x)


def plain(model: OrderedMemory, x: Tensor) -> Tensor:
    with fused.switched(False):
        return model.candidates(x)


def compare(found: Result, expected: Result, tolerance: float = 5e-5) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=tolerance)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        if gradient is None:
            assert found[1][name] is None, name
            continue
        scale = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(
            found[1][name], gradient, rtol=1e-4, atol=tolerance * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("size", [*SIZES, (2, 1, 3, 6)])
def test_as_the_module(size):
    B, S, M, H = size
    model = build(M, H).eval()
    x, weight = inputs(B, S, M, H)
    expected = result(model, lambda x: plain(model, x), x, weight)
    compare(result(model, lambda x: kernels(model, x), x, weight), expected)


@pytest.mark.parametrize("multiprocessors", [1, 1000])
def test_in_the_larger_blocks_of_matrix_units(monkeypatch, multiprocessors):
    monkeypatch.setattr(ordered_memory, "multiprocessors", lambda device: multiprocessors)
    model = build(2, 40).eval()
    x, weight = inputs(2, 3, 2, 40)
    expected = result(model, lambda x: plain(model, x), x, weight)
    monkeypatch.setattr(ordered_memory, "dot_precision", lambda: "tf32")
    tolerance = 5e-5 if DEVICE.type == "cpu" else 0.1  # TF32 has 10 bits
    compare(result(model, lambda x: kernels(model, x), x, weight), expected, tolerance)


def test_the_kernels_are_what_runs(monkeypatch):
    model = build(2, 4).eval()
    x, _ = inputs(2, 3, 2, 4)
    monkeypatch.setattr(ordered_memory, "candidates", lambda x, *_: x[:, :, None] + 7)
    torch.testing.assert_close(kernels(model, x), x[:, :, None] + 7)
    monkeypatch.setattr(ordered_memory, "MOST_UNITS", 2)
    torch.testing.assert_close(kernels(model, x), plain(model, x))


def test_slices_and_expanded_gradients():
    model = build(2, 6).eval()
    whole = torch.randn(3, 2, 12, device=DEVICE)

    def total(function: Callable[[OrderedMemory, Tensor], Tensor]) -> Tensor:
        x = whole.clone().requires_grad_()
        function(model, x.transpose(0, 1)[..., ::2]).sum().backward()
        assert x.grad is not None
        return x.grad

    torch.testing.assert_close(total(kernels), total(plain), rtol=1e-4, atol=1e-5)


def masked(model: OrderedMemory, x: Tensor, queries: Tensor, seed: Tensor, p: float) -> Tensor:
    """``OrderedMemory.candidates``, with the masks that the kernels draw."""
    (B, S, H), M = x.shape, model.slots
    key, key_norm, score, cell = model.key[1], model.key[2], model.score[2], model.cell

    def dropped(value: Tensor, t: int, use: int) -> Tensor:
        """value (B, M, W)"""
        unit = masks.grid(M, B, value.shape[-1]).transpose(0, 1)
        return value * masks.keep(seed, 5 * t + use, unit, p).to(value.device)

    def one(value: Tensor, t: int, use: int, slot: int) -> Tensor:
        """The same of one slot: value (B, W)"""
        return dropped(value[:, None].expand(-1, M, -1), t, use)[:, slot]

    candidates, memory, p_t = x[:, :1].expand(-1, M, -1), x.new_zeros(B, M, H), x.new_zeros(B, M)
    found = [candidates]
    for t in range(1, S):
        mixed = torch.relu(queries[:, t, None] + key_norm(key(dropped(candidates, t, 0))))
        scores = score(dropped(mixed, t, 1))[..., 0] / math.sqrt(H)
        weights = scores.exp() * pad(p_t.cumsum(1)[:, 1:], (0, 1), value=1.0)
        p_t = weights / weights.sum(1, keepdim=True)
        down = p_t.flip(1).cumsum(1).flip(1)[..., None]
        memory = memory * (1 - down) + candidates * down
        prepared = cell.from_memory(dropped(memory, t, 2))
        node, nodes = x[:, t], []
        for i in range(M):
            hidden = torch.relu(cell.from_node(one(node, t, 3, i)) + prepared[:, i])
            a, b, c, new = cell.out(one(hidden, t, 4, i)).chunk(4, -1)
            gates = torch.stack([a, b, c]).softmax(0)
            joined = gates[0] * node + gates[1] * memory[:, i] + gates[2] * model.activation(new)
            up = p_t[:, : i + 1].sum(1, keepdim=True)
            node = x[:, t] * (1 - up) + joined * up
            nodes.append(node)
        candidates = torch.stack(nodes, 1)
        found.append(candidates)
    return torch.stack(found, 1)


@pytest.mark.parametrize("size", SIZES[:4])
def test_with_dropout(size, monkeypatch):
    B, S, M, H = size
    model, p = build(M, H, dropout=0.3), 0.3
    x, weight = inputs(B, S, M, H)
    seed = torch.tensor([0x1234_5678_9ABC_DEF0], device=DEVICE)
    monkeypatch.setattr("torch_ctree.models.fused.chance.new_seed", lambda device: seed)
    model.query.eval()  # it stands outside
    expected = result(model, lambda x: masked(model, x, model.query(x), seed, p), x, weight)
    compare(result(model, lambda x: kernels(model, x), x, weight), expected)


def test_another_mask_each_time_but_none_in_evaluation():
    model = build(2, 6, dropout=0.5)
    x, _ = inputs(3, 3, 2, 6)
    with torch.no_grad():
        assert not torch.equal(kernels(model, x), kernels(model, x))
        model.eval()
        torch.testing.assert_close(kernels(model, x), plain(model, x), rtol=1e-4, atol=1e-5)


def test_nothing_is_read_before_it_is_written(poison):
    B, S, M, H = SIZES[1]
    model = build(M, H).eval()
    x, weight = inputs(B, S, M, H)
    expected = result(model, lambda x: plain(model, x), x, weight)
    poison()
    compare(result(model, lambda x: kernels(model, x), x, weight), expected)
