"""How much sentences have in common: F of their n-grams, all pairs of one source's candidates at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

LONGEST = 4
"""Words of an n-gram, as BLEU has it."""
BLOCK_ELEMENTS = 1 << 24
"""Of what sentences have, that is in memory at one time: 64 MiB."""


def similarities(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Of C sentences for each of B sources, each with each: tokens (B, C, N), lengths (B, C) → (B, C, C), float64.

    The geometric mean, over n = 1 … 4, of F_n = (2 m_n + s) / (h_n + r_n + s): two sentences have h_n and r_n n-grams,
    and m_n in common, each as often as it is in both; s is 0 for n = 1, else 1. So it is 1 for a sentence and itself, 0
    without a word in common, and no less than it should be for sentences without an n-gram of four. BLEU has the same
    mean, of precisions, which have to be told that sentences can be too short; F falls for those by itself.
    """
    result = torch.ones(*lengths.shape, lengths.shape[-1], dtype=torch.float64, device=tokens.device)
    words = numbered(tokens.flatten(1)).view_as(tokens)
    grams = words
    for n in range(1, min(LONGEST, tokens.shape[-1]) + 1):
        if n > 1:  # the n − 1 words before, and one more
            following = words[..., n - 1 :]
            grams = numbered((grams[..., :-1] * words[0].numel() + following).flatten(1)).view_as(following)
        count = (lengths - n + 1).clamp_min(0)
        common, smooth = _common(grams, count), float(n > 1)
        both = count[:, :, None] + count[:, None, :]
        result *= (2 * common + smooth) / (both + smooth).clamp_min(1)
    return result.sqrt().sqrt()  # exactly rounded, the same in every batch; a power is not


def numbered(values: Tensor) -> Tensor:
    """Integers (B, M) → what is the same in a row has the same number, from 0 on, in the order of the values."""
    ordered, place = values.sort(-1)
    number = pad(ordered.diff() != 0, (1, 0)).cumsum(-1)
    return torch.empty_like(values).scatter(-1, place, number)


def _common(grams: Tensor, count: Tensor) -> Tensor:
    """How many two sentences share, (B, C, C), float64: grams (B, C, P), the first ``count`` (B, C) of which are there.

    The second time that a sentence has an n-gram is something else than the first: then the smaller of two counts is
    how many things both have, a product of matrices of zeros and ones.
    """
    B, C, P = grams.shape
    place = torch.arange(P, device=grams.device)
    ordered = grams.masked_fill(place >= count[..., None], -1).sort(-1).values
    first = torch.where(pad(ordered.diff() != 0, (1, 0)), place, 0).cummax(-1).values
    things = numbered(torch.where(ordered < 0, -1, ordered * P + place - first).flatten(1)).view(B, C, P)
    width = int(things.max()) + 1
    rows = max(1, BLOCK_ELEMENTS // (C * width))
    found = []
    with torch.autocast(grams.device.type, enabled=False):  # float32 counts exactly
        for some, there in zip(things.split(rows), (ordered >= 0).split(rows), strict=True):
            has = torch.zeros(len(some), C, width, device=grams.device).scatter(-1, some, there.float())
            found.append((has @ has.mT).double())
    return torch.cat(found)
