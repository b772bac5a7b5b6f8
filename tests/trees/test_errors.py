"""Bad arguments of the plain function: one ValueError that names the argument, what came and what was expected."""

import math

import pytest
import torch

from torch_ctree import tree_log_likelihood

WEIGHTS, LENGTHS = torch.zeros(2, 3, 7), torch.tensor([3, 2])


def with_value(value):
    weights = WEIGHTS.clone()
    weights[1, 1, 4] = value
    return weights


@pytest.mark.parametrize(
    ("log_weights", "lengths", "message"),
    [
        (WEIGHTS, torch.tensor([3, 0]), r"lengths: got 0 at \[1\]; expected 1 to 3"),
        (WEIGHTS, torch.tensor([-2, 1]), r"lengths: got -2 at \[0\]; expected 1 to 3"),
        (WEIGHTS, torch.tensor([3, 4]), r"lengths: got 4 at \[1\]; expected 1 to 3"),
        (WEIGHTS, torch.tensor([3]), r"lengths: got shape \(1,\); expected \(2,\)"),
        (WEIGHTS, torch.tensor([3.0, 2.0]), r"lengths: got dtype torch.float32; expected one of uint8, int8"),
        (WEIGHTS, torch.tensor([True, True]), r"lengths: got dtype torch.bool"),
        (WEIGHTS, [3, 2], r"lengths: got list; expected a torch.Tensor of integers"),
        (WEIGHTS, LENGTHS.to("meta"), r"lengths: got a tensor on meta; expected one on cpu, where the others are"),
        (torch.zeros(2, 3, 8), LENGTHS, r"log_weights: got shape \(2, 3, 8\); expected V = 2\*\*\(D\+1\) - 1 vertices"),
        (torch.zeros(2, 3, 0), LENGTHS, r"log_weights: got shape \(2, 3, 0\); expected V"),
        (torch.zeros(3, 7), LENGTHS, r"log_weights: got shape \(3, 7\); expected \(sentences, tokens, vertices\)"),
        (torch.zeros(2, 0, 7), LENGTHS, r"log_weights: got shape \(2, 0, 7\); .* at least one token"),
        (WEIGHTS.long(), LENGTHS, r"log_weights: got dtype torch.int64; expected one of float16, bfloat16, float32"),
        (WEIGHTS.to(torch.complex64), LENGTHS, r"log_weights: got dtype torch.complex64"),
        (WEIGHTS.tolist(), LENGTHS, r"log_weights: got list; expected a torch.Tensor"),
        (with_value(math.nan), LENGTHS, r"log_weights: got nan at \[1, 1, 4\]; expected numbers or -inf"),
        (with_value(math.inf), LENGTHS, r"log_weights: got inf at \[1, 1, 4\]; expected numbers or -inf"),
    ],
)
def test_bad_tensors(log_weights, lengths, message):
    with pytest.raises(ValueError, match=message) as error:
        tree_log_likelihood(log_weights, lengths)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["cuda", "", None, "Numba"])
def test_an_unknown_backend(name):
    with pytest.raises(
        ValueError, match=r"backend: got .*; expected one of 'auto', 'paper', 'torch', 'numba', 'triton'"
    ):
        tree_log_likelihood(WEIGHTS, LENGTHS, backend=name)


def test_triton_computes_on_a_gpu_only(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(
        ValueError, match=r"backend: got 'triton' with log_weights on cpu; expected .*, or 'torch'"
    ) as error:
        tree_log_likelihood(WEIGHTS, LENGTHS, backend="triton")
    assert "\n" not in str(error.value)


def test_numba_computes_on_the_cpu_only():
    with pytest.raises(ValueError, match=r"backend: got 'numba' with log_weights on meta; expected tensors on the CPU"):
        tree_log_likelihood(WEIGHTS.to("meta"), LENGTHS.to("meta"), backend="numba", validate_args=False)


def test_values_are_not_looked_at_when_validation_is_off():
    assert tree_log_likelihood(with_value(math.nan), LENGTHS, validate_args=False)[0] == pytest.approx(math.log(2))
