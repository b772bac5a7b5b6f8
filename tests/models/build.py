"""Tiny models and batches that several tests build."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ctree.data import Batch, Vocabulary
from torch_ctree.models import ModelConfig, Seq2Seq

ENCODERS: dict[str, dict[str, Any]] = {
    "om": {"encoder": "ordered-memory"},
    "om-forward": {"encoder": "ordered-memory", "contextualiser": "forward"},
    "om-none": {"encoder": "ordered-memory", "contextualiser": "none"},
    "birnn": {"encoder": "birnn"},
    "spans": {"encoder": "spans"},
    "transformer": {"encoder": "transformer"},
}
SEQUENTIAL = ("production", "gru", "lstm", "transformer")
DECODERS = ("ctree", *SEQUENTIAL, "lanmt")
TREES = ("ctree", "grammar")
WITHOUT_RECURRENCE = ("ctree", "production", "transformer", "lanmt")
OUTPUTS = ("mlp", "linear", "lexical-attention", "copy")


def _is_worth_it(encoder: str, decoder: str, output: str) -> bool:
    """What a contextualiser does, and some output layers, has nothing to do with all the rest."""
    if output == "linear":
        return encoder == "om" and decoder in WITHOUT_RECURRENCE
    if output == "copy":
        return encoder == "om"
    return "contextualiser" not in ENCODERS[encoder] or (decoder, output) == ("ctree", "lexical-attention")


WITH_OUTPUT = {
    f"{encoder}+{decoder}+{output}": {**settings, "decoder": decoder, "output": output}
    for (encoder, settings), decoder, output in itertools.product(ENCODERS.items(), DECODERS, OUTPUTS)
    if _is_worth_it(encoder, decoder, output)
}
"""Every encoder with every decoder and every output layer, by name; of some layers, some."""

GRAMMAR: dict[str, Any] = {"encoder": "spans", "decoder": "grammar", "output": "mlp"}
"""It has one encoder, and says words in its own way."""

EVERYTHING = {**WITH_OUTPUT, "spans+grammar": GRAMMAR}
"""Every model there is."""

SOURCE_WORDS, TARGET_WORDS = 5, 3


def tiny_model(
    seed: int = 0, source_words: int = SOURCE_WORDS, target_words: int = TARGET_WORDS, **settings: Any
) -> Seq2Seq:
    """In double precision, evaluating, and with noise on every weight: some start at zero.

    It takes source words for target words of the same number, where there are such: so some can be copied.
    """
    config = ModelConfig(**{"width": 4, "depth": 2, "slots": 3, "layers": 2, **settings})
    model = Seq2Seq(config, words("s", source_words), words("t", target_words)).double().eval()
    model.decoder.introduce(words("t", source_words), model.target)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype), alpha=0.5)
    return model


def words(prefix: str, count: int) -> Vocabulary:
    return Vocabulary([f"{prefix}{n}" for n in range(count)])


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], fill: int = 0) -> Batch:
    """Token ids as a batch, padded with the token ``fill``."""
    return Batch(*padded(sources, fill), *padded(targets, fill), torch.arange(len(sources)))


def padded(rows: Sequence[Sequence[int]], fill: int = 0, width: int = 0) -> tuple[Tensor, Tensor]:
    width = max(width, *map(len, rows)) if rows else width
    tokens = [[*row, *[fill] * (width - len(row))] for row in rows]
    return torch.tensor(tokens), torch.tensor([len(row) for row in rows])


def some_pairs() -> tuple[list[list[int]], list[list[int]]]:
    """Sources and targets of several lengths, up to what a tree of depth 2 holds."""
    return [[1, 2, 3, 4], [4], [2, 0], [3, 3, 1, 0, 2]], [[2, 1, 0], [0], [1, 1, 2, 0], [0, 2]]


def some_batch() -> Batch:
    return make_batch(*some_pairs())


def sentences(vocabulary: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Every sentence of 1 … longest words."""
    for length in range(1, longest + 1):
        yield from itertools.product(range(vocabulary), repeat=length)


def scores_of_all(
    model: Seq2Seq, source: Sequence[int], longest: int, depth: int | None = None
) -> dict[tuple[int, ...], float]:
    """log p of every sentence of up to longest words, by ``score``."""
    everything = list(sentences(len(model.target), longest))
    batch = make_batch([source] * len(everything), everything)
    with torch.no_grad():
        return dict(zip(everything, model.score(batch, depth).tolist(), strict=True))


def unpadded(tokens: Tensor, lengths: Tensor) -> list[tuple[int, ...]]:
    """(…, N), (…,) → sentences, in the order of the flattened batch."""
    rows = zip(tokens.reshape(-1, tokens.shape[-1]).tolist(), lengths.flatten().tolist(), strict=True)
    return [tuple(row[:length]) for row, length in rows]
