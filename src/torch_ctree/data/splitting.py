"""Dividing pairs into sets: at random, or so that what is held out is a new combination or longer than the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from torch_ctree.data.errors import DataError
from torch_ctree.data.order import Purpose, permutation
from torch_ctree.data.pairs import Pairs

SHARE = 0.1  # of the pairs that are held out


def random_rows(pairs: Pairs, purpose: Purpose, seed: int, share: float = SHARE) -> tuple[Pairs, Pairs]:
    """The rest and a random share of the rows."""
    held = np.zeros(len(pairs), bool)
    held[permutation(len(pairs), purpose, seed)[: max(1, round(share * len(pairs)))]] = True
    return _divide(pairs, held, "random")


def random_sources(pairs: Pairs, purpose: Purpose, seed: int, share: float = SHARE) -> tuple[Pairs, Pairs]:
    """The rest and the rows of a random share of the sources, so that no source is on both sides."""
    _, first, inverse = np.unique(pairs.source_fingerprints(), return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))  # of each source, in the order they come: fingerprints have none that lasts
    chosen = np.zeros(len(first), bool)
    chosen[permutation(len(first), purpose, seed)[: max(1, round(share * len(first)))]] = True
    return _divide(pairs, chosen[number[inverse]], "random")


def longest_targets(pairs: Pairs, share: float = SHARE) -> tuple[Pairs, Pairs]:
    """The rest and the rows with the longest targets, by a limit that no length straddles.

    They are at most a share of all, or else those of the greatest length alone. Rows with the same source stay
    together, on the side of the longest of them.
    """
    lengths = np.fromiter((len(pair.target.split()) for pair in pairs), np.int64, len(pairs))
    limit = min(np.sort(lengths)[len(pairs) - 1 - int(share * len(pairs))], lengths.max() - 1)
    sources = pairs.source_fingerprints()
    return _divide(pairs, np.isin(sources, sources[lengths > limit]), "longest")


def with_words(pairs: Pairs, words: Sequence[str], phrases: Callable[[str], Sequence[str]]) -> tuple[Pairs, Pairs]:
    """The rest and the rows with a phrase that has all these words: a combination that the rest never shows.

    phrases: a source → its phrases
    """
    wanted = set(words)
    held = (any(wanted <= set(phrase.split()) for phrase in phrases(pair.source)) for pair in pairs)
    return _divide(pairs, np.fromiter(held, bool, len(pairs)), " ".join(words))


def _divide(pairs: Pairs, held: np.ndarray, how: str) -> tuple[Pairs, Pairs]:
    if held.all() or not held.any():
        raise DataError(
            f"holding out {how!r} leaves {int((~held).sum()):,} of {len(pairs):,} pairs to train on "
            f"and holds {int(held.sum()):,} out; expected some of each"
        )
    return pairs.take(np.flatnonzero(~held)), pairs.take(np.flatnonzero(held))
