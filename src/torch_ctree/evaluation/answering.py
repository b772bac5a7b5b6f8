"""What a model answers to sources alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from torch_ctree.data import Batches, Encoded, Side
from torch_ctree.devices import in_tf32
from torch_ctree.models import Seq2Seq


def answer_all(
    model: Seq2Seq,
    sources: Iterable[str],
    *,
    batch_size: int = 100,
    depth: int | None = None,
    tf32: bool = True,
    tell: Callable[[int], object] = lambda answered: None,
) -> list[str]:
    """The best answer to each source, as text, in their order; empty where there is none.

    depth: of the tree, which may be another than in training
    tf32: whether a GPU may multiply in TF32
    tell: is told after each batch how many sources it had
    """
    encoded = Encoded.untold(Side.encode(sources, model.source, "source"))
    found = [""] * len(encoded)
    for batch in Batches(encoded, batch_size=batch_size, bucketed=True, shuffle=False).epoch(0):
        with torch.no_grad(), in_tf32(model.device, tf32):
            answers = model.decode(batch.to(model.device), depth=depth)
        rows, tokens, lengths = batch.rows.tolist(), answers.tokens.tolist(), answers.lengths.tolist()
        for row, some, length in zip(rows, tokens, lengths, strict=True):
            found[row] = model.target.decode(some[:length])
        tell(len(rows))
    return found
