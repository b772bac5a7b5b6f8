"""The expansion and attention in few kernels: what the modules compute, forwards and backwards."""

import statistics
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torch_ctree.devices import triton_runs
from torch_ctree.models import ModelConfig, fused
from torch_ctree.models.decoders import CTree
from torch_ctree.models.decoders.production import ProductionSequence
from torch_ctree.models.encoders import Encoding

from . import masks

attention = pytest.importorskip("torch_ctree.models.fused.attention")
chance = pytest.importorskip("torch_ctree.models.fused.chance")
expansion = pytest.importorskip("torch_ctree.models.fused.expansion")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")

SEED = torch.tensor([0x0123_4567_89AB_CDEF], device=DEVICE)


def an_encoding(batch: int, size: int, slots: int, width: int, lengths: Sequence[int] = ()) -> Encoding:
    """Random, with gradients; of sentences of all lengths, if none are given."""

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, device=DEVICE).requires_grad_()

    words = torch.tensor(lengths or [n % size + 1 for n in range(batch)], device=DEVICE)
    return Encoding(
        root=some(batch, width),
        internal=some(batch, size, slots, width),
        leaves=some(batch, size, width),
        contextual=some(batch, size, width),
        embeddings=some(batch, size, width),
        tokens=torch.randint(5, (batch, size), device=DEVICE),
        mask=torch.arange(size, device=DEVICE) < words[:, None],
    )


def a_decoder(**settings: Any) -> CTree:
    """One whose weights are all random, those that start at zero too."""
    decoder = CTree(ModelConfig(**{"width": 16, "depth": 3, "dropout": 0.0, "attention_dropout": 0.0} | settings), 4, 5)
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return decoder.to(DEVICE)


def gradients(goal: Tensor, decoder: nn.Module, encoding: Encoding) -> dict[str, Tensor]:
    """Of all of the decoder's weights and of the source that it depends on."""
    wanted = {"root": encoding.root, "internal": encoding.internal, "leaves": encoding.leaves}
    wanted |= dict(decoder.named_parameters())
    grads = torch.autograd.grad(goal, list(wanted.values()), allow_unused=True)
    return {name: grad for name, grad in zip(wanted, grads, strict=True) if grad is not None}


def outcome(decoder: CTree, encoding: Encoding, depth: int, on: bool) -> dict[str, Tensor]:
    """The logits of words and leaves, and the gradients of something that depends on all of them."""
    with fused.switched(on):
        tree = decoder.expand(encoding, depth)
        logits = decoder.output.logits(tree.states, tree.contexts, encoding)
    generator = torch.Generator().manual_seed(1)
    goal = sum(
        (torch.randn(tensor.shape, generator=generator).to(DEVICE) * tensor).sum()
        for tensor in (logits, tree.leaf_logits[:, : (1 << depth) - 1], tree.states)
    )
    assert isinstance(goal, Tensor)
    return {"logits": logits, "leaf logits": tree.leaf_logits} | gradients(goal, decoder, encoding)


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=2e-4, rtol=1e-3, msg=lambda said, n=name: f"{n}: {said}")


@pytest.mark.parametrize("output", ["lexical-attention", "mlp"])
@pytest.mark.parametrize("context", ["nodes", "root"])
@pytest.mark.parametrize("depth", [1, 3])
def test_as_the_modules(output, context, depth):
    decoder, encoding = a_decoder(output=output, context=context), an_encoding(3, 4, 5, 16)
    assert_same(outcome(decoder, encoding, depth, True), outcome(decoder, encoding, depth, False))


def test_many_sentences_positions_and_levels():
    """More than a block of each: of a level's vertices, of positions, of vertices that are attended from."""
    decoder, encoding = a_decoder(width=32, depth=5), an_encoding(3, 9, 8, 32, lengths=(9, 1, 5))
    assert_same(outcome(decoder, encoding, 5, True), outcome(decoder, encoding, 5, False))


@pytest.mark.parametrize(("width", "positions"), [(24, 5), (8, 5), (16, 200)])
def test_what_does_not_fit_goes_the_plain_way(width, positions):
    assert not attention.fits(positions, width)
    decoder, encoding = a_decoder(width=width, depth=2), an_encoding(2, positions // 5, 5, width)
    assert_same(outcome(decoder, encoding, 2, True), outcome(decoder, encoding, 2, False))


@pytest.mark.parametrize("which", ["states", "leaf_logits"])
def test_a_gradient_of_one_of_its_results(which):
    decoder, encoding = a_decoder(), an_encoding(2, 3, 5, 16)
    found = []
    for on in (True, False):
        with fused.switched(on):
            result = getattr(decoder.expand(encoding, 3), which)
        found.append(torch.autograd.grad(result.sin().sum(), [encoding.root, encoding.internal]))
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-3)


def test_programs_that_take_many_rows(monkeypatch):
    monkeypatch.setattr(expansion, "MANY", 6)
    decoder, encoding = a_decoder(), an_encoding(3, 4, 5, 16)
    assert_same(*(outcome(decoder, encoding, 3, on) for on in (True, False)))


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_every_number_is_written(poison, half):
    decoder, encoding = a_decoder(), an_encoding(3, 4, 5, 16)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=half):
        plain = outcome(decoder, encoding, 3, half)
    poison()
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=half):
        assert_same(outcome(decoder, encoding, 3, True), plain)


# --- dropout: the same masks in plain operations ----------------------------------------------------------------------


class Masked(nn.Module):
    """In place of a dropout module: takes its masks in turn."""

    def __init__(self, p: float, turns: list[tuple[int, tuple[int, ...]]]) -> None:
        super().__init__()
        self.p, self.turns = p, iter(turns)

    def forward(self, x: Tensor) -> Tensor:
        place, shape = next(self.turns)
        assert x.numel() == torch.Size(shape).numel()
        return x * masks.keep(SEED, place, masks.grid(*shape), self.p).view(x.shape).to(x)


def test_dropout_in_the_expansion(monkeypatch):
    monkeypatch.setattr(chance, "new_seed", lambda device: SEED)
    depth, B, H = 3, 3, 16
    encoding = an_encoding(B, 4, 5, H)
    decoder = a_decoder(dropout=0.25, attention_dropout=0.5)
    decoder.attention.key[0] = nn.Identity()  # not a part of the kernels
    found = expanded(decoder, encoding, depth, True)
    turns = []
    for d in range(depth):  # in the order of the plain code: the leaf's logit, then the production
        turns += [(expansion.LEAF + d, (B << d, 2 * H)), (expansion.STATE + d, (B << d, H))]
    monkeypatch.setattr(decoder, "dropout", Masked(0.25, turns))
    decoder.attention.query[0] = Masked(0.5, [(expansion.QUERY + d, (B << d, H)) for d in range(1, depth)])
    assert_same(found, expanded(decoder, encoding, depth, False))


def expanded(decoder: CTree, encoding: Encoding, depth: int, on: bool) -> dict[str, Tensor]:
    """States, logits, and the gradients of the decoder's weights and of the source."""
    with fused.switched(on):
        tree = decoder.expand(encoding, depth)
    goal = tree.states.square().sum() + tree.leaf_logits.sin().sum()
    return {"states": tree.states, "logits": tree.leaf_logits} | gradients(goal, decoder, encoding)


# --- a chain ----------------------------------------------------------------------------------------------------------


def a_chain(**settings: Any) -> ProductionSequence:
    """One whose weights are all random."""
    chosen = {"width": 16, "depth": 3, "dropout": 0.0, "attention_dropout": 0.0, "decoder": "production"} | settings
    decoder = ProductionSequence(ModelConfig(**chosen), 4, 5)
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return decoder.to(DEVICE)


def said(decoder: ProductionSequence, encoding: Encoding, steps: int, on: bool) -> dict[str, Tensor]:
    """Where words are said, and the gradients of the decoder's weights and of the source."""
    with fused.switched(on):
        words = torch.zeros(len(encoding.root), steps, dtype=torch.long, device=DEVICE)
        features, contexts, over = decoder.forced(encoding, words, decoder.nodes(encoding))
    assert contexts is None
    assert features.shape == (len(encoding.root), steps, encoding.root.shape[1])
    goal = features.square().sum() + over.sin().sum()
    return {"features": features, "over": over} | gradients(goal, decoder, encoding)


@pytest.mark.parametrize("context", ["nodes", "root"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_chain_as_the_modules(steps, context):
    decoder, encoding = a_chain(context=context), an_encoding(3, 4, 5, 16)
    assert_same(said(decoder, encoding, steps, True), said(decoder, encoding, steps, False))


def test_a_chain_goes_through_the_kernels(monkeypatch):
    levels = []
    expand = expansion.expand
    monkeypatch.setattr(expansion, "expand", lambda *given: levels.append(given[3]) or expand(*given))
    said(a_chain(), an_encoding(2, 4, 5, 16), 5, True)
    assert [(settings.depth, settings.chain) for settings in levels] == [(5, True)]


def test_a_chain_that_is_too_long_goes_the_plain_way(monkeypatch):
    monkeypatch.setattr(expansion, "FURTHER", 4)
    decoder, encoding = a_chain(), an_encoding(2, 4, 5, 16)
    assert_same(said(decoder, encoding, 4, True), said(decoder, encoding, 4, False))


def test_dropout_in_a_chain(monkeypatch):
    monkeypatch.setattr(chance, "new_seed", lambda device: SEED)
    steps, B, H = 4, 3, 16
    encoding = an_encoding(B, 4, 5, H)
    decoder = a_chain(dropout=0.25, attention_dropout=0.5)
    decoder.attention.key[0] = nn.Identity()  # not a part of the kernels
    found = said(decoder, encoding, steps, True)
    state, query, leaf = (n * expansion.FURTHER for n in (1, 2, 3))
    turns = [turn for d in range(steps) for turn in ((leaf + d, (B, 2 * H)), (state + d, (B, H)))]
    monkeypatch.setattr(decoder, "dropout", Masked(0.25, turns))
    after = [(query + d, (B, H)) for d in range(1, steps + 1)]  # the plain code also asks for what nobody looks at
    decoder.attention.query[0] = Masked(0.5, after)
    assert_same(found, said(decoder, encoding, steps, False))


def test_every_number_of_a_chain_is_written(poison):
    decoder, encoding = a_chain(), an_encoding(3, 4, 5, 16)
    plain = said(decoder, encoding, 5, False)
    poison()
    assert_same(said(decoder, encoding, 5, True), plain)


# --- in bfloat16 ------------------------------------------------------------------------------------------------------


def errors_under_autocast(output: str) -> tuple[dict[str, float], dict[str, float]]:
    """Relative to what is exact: torch's own, and those of the kernels."""
    decoder, encoding = a_decoder(output=output), an_encoding(3, 4, 5, 16)
    exact = {name: tensor.detach() for name, tensor in outcome(decoder, encoding, 3, False).items()}
    del exact["attention.key.2.bias"]  # is zero: attention is a softmax
    with torch.autocast(DEVICE.type, torch.bfloat16):
        rounded, fast = outcome(decoder, encoding, 3, False), outcome(decoder, encoding, 3, True)
    assert fast.keys() == rounded.keys()
    assert fast["leaf logits"].dtype == torch.float32
    assert (fast["logits"] != exact["logits"]).any()

    def errors(found: dict[str, Tensor]) -> dict[str, float]:
        return {name: float((found[name].detach() - there).norm() / there.norm()) for name, there in exact.items()}

    return errors(rounded), errors(fast)


@pytest.mark.parametrize("output", ["lexical-attention", "mlp"])
def test_under_autocast(output):
    """No worse than torch's own, as a rule: now and then rounding turns a unit of a relu on or off for one of them."""
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(errors_under_autocast(output))
    for name in found[0][0]:
        rounded, fast = (statistics.median(errors[which][name] for errors in found) for which in (0, 1))
        assert fast <= 2 * rounded + 2e-2, name


def test_a_chain_under_autocast(monkeypatch):
    """With dropout, whose masks are those of float32."""
    monkeypatch.setattr(chance, "new_seed", lambda device: SEED)
    encoding, decoder = an_encoding(3, 4, 5, 16), a_chain(dropout=0.25)
    exact = said(decoder, encoding, 5, True)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        rounded = said(decoder, encoding, 5, True)
    for name in exact.keys() - {"attention.key.2.bias"}:  # which is zero: attention is a softmax
        there = exact[name].detach()
        assert 0 < float((rounded[name].detach() - there).norm() / there.norm()) < 0.1, name


def test_in_bfloat16_fewer_positions_fit():
    assert attention.fits(128, 16)
    assert attention.fits(64, 16, torch.bfloat16)
    assert not attention.fits(65, 16, torch.bfloat16)
