"""Compile the kernels for a GPU that is not there, just as the library launches them. Nothing is launched.

Triton's interpreter takes what its compiler refuses, such as a name that changes its type in a loop. So this calls the
library on a CPU with launches that only compile; what comes out is whatever was in memory.

python -m tests.compiling, with TRITON_INTERPRET unset
"""

from __future__ import annotations

import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import compiler
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from torch_ctree.data import Batch, Vocabulary
from torch_ctree.devices import in_tf32
from torch_ctree.models import ModelConfig, Seq2Seq, fused
from torch_ctree.models.fused import expansion, ordered_memory
from torch_ctree.trees import LinearEmission, emission, likelihood, prior
from torch_ctree.trees.cells import Transitions
from torch_ctree.trees.kernels import grammar
from torch_ctree.trees.kernels import triton as kernels

WIDTH, ODD_WIDTH = 128, 40
"""What the paper has, and what is no power of two."""
MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"output": "mlp"},
    {"encoder": "birnn", "layers": 2},
    {"decoder": "production"},
    {"dropout": 0.0, "attention_dropout": 0.0},
    {"width": ODD_WIDTH},
)
DEPTHS = 0, 1, 8


class Absent(DriverBase):
    """An H200 that is only known by name."""

    def __init__(self) -> None:
        """Nothing to find out."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError


def only_compile(compiled: Counter[str]) -> None:
    """From now on, launches compile."""
    driver.set_active(Absent())
    add_stages = CUDABackend.add_stages

    def first_stages(self: Any, stages: dict[str, Any], *others: Any) -> None:
        add_stages(self, stages, *others)
        for name in [name for name in stages if name not in ("ttir", "ttgir")]:  # the others take long
            del stages[name]

    CUDABackend.add_stages = first_stages  # pyright: ignore[reportAttributeAccessIssue]
    compiler.CompiledKernel = lambda *parts: SimpleNamespace()
    run = JITFunction.run

    def compiling(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled[self.fn.__name__] += 1
        return run(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = compiling
    likelihood.triton_runs = fused.triton_runs = lambda device: True
    prior.in_kernels = emission.in_kernels = lambda x: True
    expansion.MANY = 16  # vertices, which the last level has here


def models() -> None:
    """A step of each model, in float32 and in bfloat16, on small and on large GPUs."""
    words = Vocabulary.build(["a b c d e"])
    lengths = torch.tensor([9, 3, 5, 1])
    tokens = torch.zeros(4, 9, dtype=torch.long)
    batch = Batch(tokens, lengths, tokens, lengths, torch.arange(4))
    for changes in MODELS:
        for half in (False, True):
            ordered_memory.multiprocessors = lambda device, many=half: 132 if many else 1
            model = Seq2Seq(ModelConfig(**{"width": WIDTH, "depth": 3, **changes}), words, words)
            with fused.switched(True), torch.autocast("cpu", torch.bfloat16, enabled=half):
                model.losses(batch).sum().backward()
            with fused.switched(True), torch.no_grad():
                model.eval().losses(batch)


def trees() -> None:
    """Inference, in both precisions."""
    for depth in DEPTHS:
        for dtype in (torch.float32, torch.float64):
            weights, lengths = torch.zeros(2, 3, (2 << depth) - 1, dtype=dtype), torch.tensor([3, 1])
            _, memory = kernels.forward(weights, lengths)
            kernels.backward(weights, lengths, memory, torch.ones(2, 3, dtype=dtype))
            kernels.alphas(weights, lengths, maximise=True)
            kernels.best_paths(weights, lengths)
            kernels.best_path_within(weights[:, 0], 3)
            kernels.best_derivation(weights[:, 0], weights[:, 0], weights[:, 0])


def grammars() -> None:
    """The charts of a grammar and their derivatives, in TF32: operators on three levels."""
    B, N, P, operators, arriving = 2, 3, 2, 64, 32
    Q = P * operators
    leaves, split, choice = torch.zeros(B, N, Q), torch.zeros(B, Q), torch.zeros(B, P, operators)
    left = right = Transitions(torch.zeros(B, Q, P + operators - arriving), choice)
    root, lengths, grad = torch.tensor([0, 1]), torch.tensor([3, 1]), torch.ones(B)
    with in_tf32():
        chart = grammar.inside(leaves, split, left, right)
        outside = grammar.outside(chart, split, left, right, root, lengths, grad)
        grammar.by_logits(outside, chart.beta, left, right, grad)


def emissions() -> None:
    """Words from states, in three precisions."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        states = torch.zeros(2, 7, 64, dtype=dtype, requires_grad=True)
        layer = nn.Linear(64, 100).to(dtype)
        given = LinearEmission(states, layer.weight, layer.bias)
        given.log_prob(torch.zeros(2, 3, dtype=torch.long)).sum().backward()
        given.topk(1)


def main() -> None:
    """All of it; what was compiled, and how often it was asked for."""
    compiled: Counter[str] = Counter()
    only_compile(compiled)
    for part in (trees, grammars, emissions, models):
        part()
    print(triton.__version__, *(f"{name} {times}" for name, times in sorted(compiled.items())), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
