"""BLEU, by sacreBLEU, so that others can compare with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch_ctree.data.errors import DataError, count
from torch_ctree.data.vocabulary import several


class Bleu(NamedTuple):
    """A score, from 0 to 100, and how it was computed."""

    score: float
    signature: str
    """sacreBLEU's, with its version; a score means little without it."""


def bleu(outputs: Sequence[str], references: Sequence[str], tokenised: bool) -> Bleu:
    """BLEU of all outputs together: n-grams of up to four words, one reference each, upper and lower case as they are.

    Where no output has four words, there are no n-grams of four, and the score is 0.

    tokenised: whether marks already stand apart from words, in both; plain text is cut as mteval-v13a does it.

    >>> round(bleu(["the old cat sleeps now ."], ["the old cat sleeps here ."], tokenised=True).score, 2)
    53.73
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  (slow to import, and only needed here)

    if len(several(outputs, "outputs")) != len(several(references, "references")):
        raise DataError(
            f"outputs: got {len(outputs):,}; expected {count(len(references), 'text')}, one for each reference"
        )
    if not outputs:
        raise DataError("outputs: got none; expected one or more")
    # force: whether the text is tokenised has been said, and need not be guessed from its full stops.
    metric = BLEU(tokenize="none" if tokenised else "13a", force=True)
    score = metric.corpus_score(list(outputs), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))
