"""At the paper's size, on a GPU: bfloat16 and TF32 beside float32, with the same dropout in all of them."""

import pytest
import torch
from torch import Tensor

from torch_ctree.benchmarking import training
from torch_ctree.data import Batch, Vocabulary
from torch_ctree.devices import in_tf32
from torch_ctree.models import ModelConfig, Seq2Seq

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

GPU = torch.device("cuda")
WORDS = Vocabulary.build(["a b c d e f g"])


def a_batch(sentences: int, longest: int) -> Batch:
    """Sources of up to nine words, targets of up to so many."""
    torch.manual_seed(1)
    sizes = [(torch.arange(sentences) % most + 1).to(GPU) for most in (9, longest)]
    source, target = (torch.randint(len(WORDS), (sentences, most), device=GPU) for most in (9, longest))
    return Batch(source, sizes[0], target, sizes[1], torch.arange(sentences, device=GPU))


def a_model(output: str) -> Seq2Seq:
    """The paper's, as it is after some training: what begins with zeros is random."""
    torch.manual_seed(0)
    model = Seq2Seq(ModelConfig(width=128, depth=8, output=output), WORDS, WORDS).to(GPU)  # pyright: ignore
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def outcome(model: Seq2Seq, batch: Batch, half: bool) -> dict[str, Tensor]:
    """The losses, and the gradients of their sum."""
    model.zero_grad()
    torch.manual_seed(2)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        losses = model.losses(batch)
    losses.sum().backward()
    grads = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"losses": losses.detach(), **{name: grad.clone() for name, grad in grads.items() if grad is not None}}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("output", ["lexical-attention", "mlp"])
@pytest.mark.parametrize(("half", "most"), [(False, 0.05), (True, 0.3)], ids=["TF32", "bfloat16"])
def test_as_in_float32(output, training, half, most):
    model, batch = a_model(output).train(training), a_batch(100, 48)
    exact = outcome(model, batch, False)
    with in_tf32(GPU):
        found = outcome(model, batch, half)
    assert found.keys() == exact.keys()
    for name, there in exact.items():
        assert found[name].isfinite().all(), name
        if there.norm() > 1e-3 * max(
            grad.norm() for grad in exact.values()
        ):  # what is zero but for rounding is left out
            error = (found[name] - there).norm() / there.norm()
            assert error < most, f"{name}: {error:.3f}"


@pytest.mark.parametrize("graphs", [False, True], ids=["one by one", "graphs"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_epoch(precision, graphs):
    """Of SCAN: its losses are numbers, and become smaller."""
    with in_tf32(GPU):
        run = training._Going(training.settings(0, None, precision=precision), GPU)
        if not graphs:
            run.steps.captures = False
            run.steps.graphs.clear()
        for _ in range(len(run.steps.shapes) - run.at):
            run.go_on()
    run.check()
    losses = run.steps.losses[: run.at]
    assert losses[-10:].mean() < losses[:10].mean() / 2


@pytest.mark.parametrize("sentences", [1000, 7])
@pytest.mark.parametrize("half", [False, True], ids=["TF32", "bfloat16"])
def test_answers(half, sentences):
    """Where nobody trains, and many sentences come at once."""
    model, batch = a_model("lexical-attention").eval(), a_batch(sentences, 48)
    with torch.no_grad():
        _, exact = model.check(batch)
        with in_tf32(GPU), torch.autocast("cuda", torch.bfloat16, enabled=half):
            _, scores = model.check(batch)
    torch.testing.assert_close(scores, exact, rtol=0.02, atol=0.5)
