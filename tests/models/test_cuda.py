"""On a GPU: the same numbers as on the CPU."""

from typing import Any

import pytest
import torch

from torch_ctree import Seq2Seq

from .build import EVERYTHING, some_batch, tiny_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def ready(**settings: Any) -> Seq2Seq:
    """A recurrent network has no gradient on a GPU unless it is training; without dropout that makes no difference."""
    return tiny_model(dropout=0.0, attention_dropout=0.0, **settings).train()


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_as_on_the_cpu(settings):
    model, batch = ready(**settings), some_batch()
    score, decoded = model.score(batch), model.decode(batch)
    score.sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    there = model.cuda()
    on_gpu = batch.to("cuda")
    score_there = there.score(on_gpu)
    torch.testing.assert_close(score_there.cpu(), score)
    answers = there.decode(on_gpu)
    assert answers.lengths.tolist() == decoded.lengths.tolist()
    torch.testing.assert_close(answers.log_prob.cpu(), decoded.log_prob)
    score_there.sum().backward()
    for name, parameter in there.named_parameters():
        if gradients[name] is not None:
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad.cpu(), gradients[name])


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_mixed_precision(settings):
    model, batch = ready(width=16, **settings).float().cuda(), some_batch().to("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        score = model.score(batch)
        model.decode(batch)
    assert score.dtype == torch.float32
    torch.testing.assert_close(score, model.score(batch), rtol=0.1, atol=0.1)
    score.sum().backward()


def test_text_goes_where_the_model_is():
    model = tiny_model().cuda()
    (answer,) = model.answer("s0 s1")
    assert answer.text
    assert model.parse("s0 s1", "t0 t1").log_evidence().device.type == "cuda"
