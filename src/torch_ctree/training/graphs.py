"""Training steps on one GPU as CUDA graphs: forward, backward, clipping and the optimiser in one launch.

The pairs stay in the GPU's memory, and so does their order: a step finds its batch by itself, and nobody waits for
anybody within an epoch. A graph has fixed shapes, so that batches are filled up to one of a few.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from torch_ctree.data import Batch, Batches, Encoded, Epoch
from torch_ctree.data.errors import in_one_line
from torch_ctree.data.pairs import Integers
from torch_ctree.models import Seq2Seq
from torch_ctree.training.configuration import OptimisationConfig
from torch_ctree.training.errors import TrainingError

MOST_SHAPES = 32
"""A graph for each of so many shapes of batches; batches of other shapes go step by step."""
TOTALS = ("loss", "pairs")
"""What is summed up over the pairs of an epoch."""


class Shape(NamedTuple):
    """Of a batch: pairs, tokens of a source and of a target."""

    pairs: int
    source: int
    target: int


def shapes_of(batches: Batches, epoch: Epoch) -> list[Shape]:
    """Of each batch of an epoch: as large as the largest, or, where batches have pairs of like lengths, rounded up."""
    longest = batches.pairs.longest
    if not batches.bucketed:
        assert batches.batch_size is not None
        return [Shape(batches.batch_size, *longest)] * len(epoch)
    sizes = batches.pairs.source.lengths, batches.pairs.target.lengths
    return [
        Shape(
            _up(len(rows), 8), *(_up(int(size[rows].max()), 8, most) for size, most in zip(sizes, longest, strict=True))
        )
        for rows in epoch.rows
    ]


def _up(number: int, step: int, most: int | None = None) -> int:
    """To a multiple of step, but to no more than most."""
    rounded = -(-number // step) * step
    return rounded if most is None else min(rounded, most)


class Pairs:
    """All pairs of a training set on a device, and what of them comes when."""

    def __init__(self, pairs: Encoded, device: torch.device) -> None:
        rows = np.arange(len(pairs))
        self.source, self.source_lengths = (tensor.to(device) for tensor in pairs.source.padded(rows, None))
        self.target, self.target_lengths = (tensor.to(device) for tensor in pairs.target.padded(rows, None))
        self.order = torch.empty(0, dtype=torch.long, device=device)
        """The rows of all batches of the epoch, one after the other; −1 fills up."""
        self.next = torch.zeros(1, dtype=torch.long, device=device)
        """Where the next batch begins in it."""

    def arrange(self, groups: list[Integers], shapes: list[Shape], done: int) -> None:
        """The order of an epoch of which some batches are done already."""
        filled = zip(groups, (shape.pairs for shape in shapes), strict=True)
        order = np.concatenate([np.pad(rows, (0, size - len(rows)), constant_values=-1) for rows, size in filled])
        if len(order) > len(self.order):
            self.order = torch.empty(2 * len(order), dtype=torch.long, device=self.order.device)
        self.order[: len(order)].copy_(torch.from_numpy(order))
        self.next.fill_(sum(shape.pairs for shape in shapes[:done]))

    def take(self, shape: Shape) -> Batch:
        """The next batch."""
        rows = self.order[self.next + torch.arange(shape.pairs, device=self.order.device)]
        self.next += shape.pairs
        shown = torch.where(rows >= 0, rows, rows[:1])  # what fills up is a pair too: it computes like one
        return Batch(
            self.source[:, : shape.source].index_select(0, shown),
            self.source_lengths.index_select(0, shown),
            self.target[:, : shape.target].index_select(0, shown),
            self.target_lengths.index_select(0, shown),
            rows,
        )


class Optimiser(torch.optim.AdamW):
    """Adam whose ``step`` is a part of something larger: whoever calls it from outside brings the whole."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All of a training step."""
        assert closure is not None
        return closure()

    def update(self) -> None:
        """The optimiser's own part."""
        super().step()


def adam(model: nn.Module, config: OptimisationConfig, fast: bool) -> torch.optim.AdamW:
    """Adam, with decoupled weight decay; ``settle`` it once it is where it computes."""
    kind = Optimiser if fast else torch.optim.AdamW
    betas = config.beta1, config.beta2
    return kind(model.parameters(), config.lr, betas, config.eps, weight_decay=config.weight_decay)


def settle(optimiser: torch.optim.Optimizer, device: torch.device) -> None:
    """Let it compute on a device, wherever its state comes from: of a graph's, the learning rate is a tensor there.

    The rate itself stays a number in its groups: in float32 it would be another one.
    """
    fast = isinstance(optimiser, Optimiser)
    for group in optimiser.param_groups:
        group["rate"] = rate = float(group.get("rate", group["lr"]))
        group["lr"] = torch.tensor(rate, device=device) if fast else rate
        group["capturable"] = group["fused"] = fast and device.type == "cuda"
        group["foreach"] = None
    for state in optimiser.state.values():
        state["step"] = state["step"].to(device if fast else "cpu")


class Steps:
    """The steps of a run. A shape of batch goes step by step at first, which warms everything up; then as a graph.

    model: what learns
    optimiser: of its parameters
    batches: of the training set
    gradient_norm: longer gradients are cut to this
    """

    def __init__(self, model: Seq2Seq, optimiser: Optimiser, batches: Batches, gradient_norm: float) -> None:
        self.model, self.optimiser, self.batches, self.gradient_norm = model, optimiser, batches, gradient_norm
        self.device = model.device
        self.pairs = Pairs(batches.pairs, self.device)
        self.epoch: int | None = None
        self.first = 0
        """The first step of the epoch that was done here."""
        self.shapes: list[Shape] = []
        self.losses = torch.zeros(0, device=self.device)
        """Of each batch of the epoch."""
        self.step = torch.zeros(1, dtype=torch.long, device=self.device)
        self.totals = torch.zeros(2, dtype=torch.double, device=self.device)
        """The sum of the losses of all pairs of the epoch, and how many pairs."""
        on_gpu = self.device.type == "cuda"
        self.latest = torch.zeros((), pin_memory=on_gpu)
        """The loss of a batch a moment ago: here without waiting for it."""
        self.seen: Counter[Shape] = Counter()
        self.graphs: dict[Shape, torch.cuda.CUDAGraph] = {}
        self.captures, self.checked = on_gpu, False
        """Whether steps become graphs; whether it is known that they can."""

    def begin(self, epoch: int, done: int, totals: Mapping[str, Tensor] | None = None) -> None:
        """An epoch, of which some batches are done already, with these totals."""
        self.epoch, self.first = epoch, done
        batches = self.batches.epoch(epoch)
        self.shapes = shapes_of(self.batches, batches)
        places = self.pairs.order, self.losses
        self.pairs.arrange(batches.rows, self.shapes, done)
        if len(self.shapes) > len(self.losses):
            self.losses = torch.zeros(2 * len(self.shapes), device=self.device)
        if any(now is not then for now, then in zip((self.pairs.order, self.losses), places, strict=True)):
            self.graphs.clear()  # they know the old places
        self.step.fill_(done)
        self.totals.copy_(torch.tensor([float((totals or {}).get(name, 0)) for name in TOTALS], dtype=torch.double))

    def kept(self) -> dict[str, Tensor]:
        """The totals of the epoch so far, by name."""
        return dict(zip(TOTALS, self.totals.clone(), strict=True))

    def __call__(self, n: int) -> None:
        """Step number n of the epoch."""
        shape = self.shapes[n]
        self.seen[shape] += 1
        if shape not in self.graphs and self._may_capture(shape):
            self._capture(shape)
        if shape in self.graphs:
            self.graphs[shape].replay()
        elif self.captures and not self.checked and self.seen[shape] > 1:
            self._one_watched(shape)
        else:
            self._one(shape)

    def _may_capture(self, shape: Shape) -> bool:
        """Once it is warm, and known that nothing in it waits for the GPU."""
        return self.captures and self.checked and self.seen[shape] > 1 and len(self.graphs) < MOST_SHAPES

    def _one_watched(self, shape: Shape) -> None:
        """A step that tells whether anything in it waits for the GPU: that could not be recorded."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self._one(shape)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        self.checked = True
        for warning in said:
            if "synchronizing CUDA operation" in str(warning.message):
                self.captures = False
            elif "Synchronization debug mode" not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        if not self.captures:
            warnings.warn("no CUDA graphs: something in this model waits for the GPU; going on without", stacklevel=2)

    def _capture(self, shape: Shape) -> None:
        """Record a step without doing it."""
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        try:
            with torch.cuda.graph(graph, pool=pool):
                self._one(shape)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise TrainingError(
                f"trainer.fast: the step cannot be recorded as a CUDA graph ({in_one_line(error)}); "
                "train with --trainer.fast false"
            ) from error
        self.graphs[shape] = graph

    def _one(self, shape: Shape) -> None:
        """Forward, backward, clipping, optimiser; nothing of it comes back to the host."""
        batch = self.pairs.take(shape)
        self.optimiser.zero_grad(set_to_none=True)
        losses, pairs = self.model.losses(batch), batch.real.sum()
        loss = losses.sum() / pairs
        with torch.autocast(self.device.type, enabled=False):  # which is for the forward pass alone
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.gradient_norm)
            self.optimiser.update()
        loss = loss.detach()
        self.losses.index_copy_(0, self.step, loss[None])
        self.step += 1
        self.totals += torch.stack([losses.detach().sum(), pairs]).double()
        self.latest.copy_(loss, non_blocking=True)
