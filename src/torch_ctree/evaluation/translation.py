"""BLEU, by sacreBLEU, so that others can compare with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from torch_ctree.data.errors import DataError, count
from torch_ctree.data.vocabulary import several

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

ORDER = 4
"""The longest n-grams have so many words."""
NGRAMS = 2 * ORDER + 2
"""Numbers that BLEU is made of."""


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
    if len(several(outputs, "outputs")) != len(several(references, "references")):
        raise DataError(
            f"outputs: got {len(outputs):,}; expected {count(len(references), 'text')}, one for each reference"
        )
    if not outputs:
        raise DataError("outputs: got none; expected one or more")
    metric = _metric(tokenised)
    score = metric.corpus_score(list(outputs), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))


def bleu_counts(output: str, reference: str, tokenised: bool) -> list[int]:
    """What a pair adds to BLEU, for ``bleu_of``: ``NGRAMS`` numbers, to be summed over pairs.

    Of n-grams of one to four words those that are in the reference, then all; then the words of output and reference.
    """
    one = _metric(tokenised, effective_order=True).sentence_score(output, [reference])
    return [*one.counts, *one.totals, one.sys_len, one.ref_len]


def bleu_of(counts: Sequence[float]) -> float:
    """BLEU, from the sums of ``bleu_counts`` over all pairs; as ``bleu`` has it.

    >>> round(bleu_of(bleu_counts("the old cat sleeps now .", "the old cat sleeps here .", tokenised=True)), 2)
    53.73
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415

    whole = [round(count) for count in counts]
    right, total, (output, reference) = whole[:ORDER], whole[ORDER : 2 * ORDER], whole[2 * ORDER :]
    return float(BLEU.compute_bleu(right, total, output, reference, smooth_method="exp").score)


@cache
def _metric(tokenised: bool, effective_order: bool = False) -> BLEU:
    """sacreBLEU's.

    effective_order: for single sentences, whose longest n-grams it is told not to warn of
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  (slow to import, and only needed here)

    # force: whether the text is tokenised has been said, and need not be guessed from its full stops.
    return BLEU(tokenize="none" if tokenised else "13a", force=True, effective_order=effective_order)
