"""Attention of all vertices at once: as in plain operations with the same masks, forwards and backwards."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from torch_ctree.devices import triton_runs
from torch_ctree.models import fused
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.dropout import Dropout

from . import masks

attended = pytest.importorskip("torch_ctree.models.fused.attended")
attention = pytest.importorskip("torch_ctree.models.fused.attention")
words = pytest.importorskip("torch_ctree.models.fused.words")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")

SEED = torch.tensor([0x0123_4567_89AB_CDEF], device=DEVICE)
WIDTH = 16


class Case(NamedTuple):
    """What is attended to by what; sentences of different lengths."""

    states: Tensor  # (B, Q, H)
    linear: nn.Linear
    norm: nn.LayerNorm
    keys: Tensor  # (B, P, H)
    values: Tensor  # (B, P, H)
    mask: Tensor  # (B, P)
    words: Tensor | None  # (K, H)

    @property
    def inputs(self) -> list[Tensor]:
        """All that has a gradient."""
        weights = [*self.linear.parameters(), *self.norm.parameters()]
        return [self.states, self.keys, self.values, *weights, *([] if self.words is None else [self.words])]


def a_case(batch: int, queries: int, positions: int, spelled: int | None) -> Case:
    def some(*shape: int) -> Tensor:
        return torch.randn(shape, device=DEVICE).requires_grad_()

    torch.manual_seed(0)
    module = Attention(WIDTH, 0.5).to(DEVICE)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    lengths = torch.arange(batch, device=DEVICE) % positions + 1
    mask = torch.arange(positions, device=DEVICE) < lengths[:, None]
    sources = some(batch, positions, WIDTH), some(batch, positions, WIDTH), mask
    return Case(
        some(batch, queries, WIDTH), *module.projection, *sources, None if spelled is None else some(spelled, WIDTH)
    )


def in_kernels(case: Case, p_query: float, p_out: float) -> Tensor:
    sources = attention.Sources(case.keys, case.values, case.mask)
    return attended.attended(case.states, case.linear, case.norm, sources, SEED, p_query, p_out, words=case.words)


def plainly(case: Case, p_query: float, p_out: float) -> Tensor:
    def dropped(x: Tensor, place: int, p: float) -> Tensor:
        return x * masks.keep(SEED, place, masks.grid(*x.shape), p).to(x) if p else x

    asked = case.norm(case.linear(dropped(case.states, attended.QUERY_PLACE, p_query)))
    scores = (asked @ case.keys.mT / WIDTH**0.5).masked_fill(~case.mask[:, None], -torch.inf)
    found = dropped(scores.softmax(-1) @ case.values, attention.OUT_PLACE, p_out)
    return found if case.words is None else found @ case.words.T


def assert_the_same(case: Case, p_query: float = 0.0, p_out: float = 0.0) -> None:
    found, plain = in_kernels(case, p_query, p_out), plainly(case, p_query, p_out)
    torch.testing.assert_close(found, plain, atol=2e-4, rtol=1e-4)
    goals = found.sin().sum(), plain.sin().sum()
    one, other = (torch.autograd.grad(goal, case.inputs, retain_graph=True) for goal in goals)
    torch.testing.assert_close(one, other, atol=5e-4, rtol=1e-3)


@pytest.mark.parametrize("spelled", [None, 1, 6, 16, 17, 32])
@pytest.mark.parametrize(
    ("batch", "queries", "positions"), [(1, 1, 1), (3, 7, 4), (2, 33, 16), (2, 16, 17), (1, 3, 32)]
)
def test_as_in_plain_operations(batch, queries, positions, spelled):
    assert_the_same(a_case(batch, queries, positions, spelled))


@pytest.mark.parametrize("spelled", [None, 6])
def test_with_dropout(spelled):
    assert_the_same(a_case(3, 7, 9, spelled), 0.5, 0.25)


@pytest.mark.parametrize("queries", [1, 31, 32, 33, 70])
def test_programs_that_take_many_queries(monkeypatch, queries):
    monkeypatch.setattr(words, "BLOCKS", 2)
    assert_the_same(a_case(2, queries, 5, 6), 0.25, 0.25)


def test_every_number_is_written(poison):
    case = a_case(2, 20, 5, 6)
    plain = torch.autograd.grad(plainly(case, 0.0, 0.0).sin().sum(), case.inputs)
    poison()
    found = torch.autograd.grad(in_kernels(case, 0.0, 0.0).sin().sum(), case.inputs)
    torch.testing.assert_close(found, plain, atol=5e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("positions", "spelled", "called"), [(16, 16, True), (17, 6, False), (4, 17, False)], ids=["all", "long", "many"]
)
def test_what_does_not_fit_is_multiplied_by_torch(monkeypatch, positions, spelled, called):
    case, module = a_case(2, 3, positions, spelled), Attention(WIDTH, 0.0).to(DEVICE)
    assert case.words is not None
    calls: list[str] = []
    spell = attended.spell
    monkeypatch.setattr(attended, "spell", lambda *a: (calls.append("spell"), spell(*a)))
    memory = Memory(case.keys.mT, case.values, case.mask[:, None])
    with torch.no_grad():
        with fused.switched(True):
            found = module.logits(case.states, memory, Dropout(0.0), case.words)
        with fused.switched(False):
            plain = module.logits(case.states, memory, Dropout(0.0), case.words)
    assert bool(calls) == called
    torch.testing.assert_close(found, plain, atol=2e-4, rtol=1e-3)
