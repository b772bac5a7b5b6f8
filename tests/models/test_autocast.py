"""Mixed precision: the network in bfloat16, probabilities in float32."""

import pytest
import torch

from .build import EVERYTHING, make_batch, tiny_model


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_scores_are_float32_and_near_those_of_float32(settings):
    model = tiny_model(width=16, **settings).float()
    batch = make_batch([[0, 1, 2], [3, 4]], [[0, 1], [2, 1, 0]])
    with torch.autocast("cpu", torch.bfloat16):
        score = model.score(batch)
        best = model.decode(batch)
    assert score.dtype == best.log_prob.dtype == torch.float32
    torch.testing.assert_close(score, model.score(batch), rtol=0.1, atol=0.1)
    score.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
