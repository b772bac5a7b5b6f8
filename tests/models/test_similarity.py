import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.models import similarity
from torch_ctree.models.similarity import numbered, similarities

from .build import padded


def similar(one, other):
    """The geometric mean of F of n-grams, n = 1 … 4, by counting."""
    product = 1.0
    for n in range(1, 5):
        a, b = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (one, other))
        smooth = 1 if n > 1 else 0
        product *= (2 * (a & b).total() + smooth) / (a.total() + b.total() + smooth)
    return product ** (1 / 4)


def of(sentences, width=0, fill=0):
    tokens, lengths = padded(sentences, fill, width)
    return similarities(tokens[None], lengths[None])[0]


def some_sentences(seed, count=6, vocabulary=3, longest=9):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [tuple(torch.randint(vocabulary, (n,), generator=generator).tolist()) for n in lengths]


@given(seed=st.integers(0, 999), vocabulary=st.integers(1, 5), longest=st.sampled_from([1, 2, 3, 4, 5, 12]))
def test_by_counting(seed, vocabulary, longest):
    sentences = some_sentences(seed, 6, vocabulary, longest)
    expected = [[similar(one, other) for other in sentences] for one in sentences]
    torch.testing.assert_close(of(sentences), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_what_it_is():
    found = of([(0, 1, 2, 3), (0, 1, 2, 3), (4, 5), (0, 1, 3), (0, 0, 0, 0), (0,)])
    torch.testing.assert_close(found, found.T)
    assert found.diagonal().tolist() == [1.0] * 6
    assert found[0, 1] == 1
    assert found[0, 2] == 0  # no word in common
    # Three words of four and three; one pair of three and two; no three and no four words.
    assert found[0, 3].item() == pytest.approx((6 / 7 * 3 / 6 * 1 / 4 * 1 / 2) ** (1 / 4))
    assert found[4, 5].item() == pytest.approx((2 / 5 * 1 / 4 * 1 / 3 * 1 / 2) ** (1 / 4))  # one of four, not all


def test_many_sources_at_once_are_as_each_alone(monkeypatch):
    sources = [some_sentences(seed, 5, vocabulary, 8) for seed, vocabulary in enumerate((1, 2, 9, 4))]
    tokens, lengths = zip(*(padded(sentences, 7, 8) for sentences in sources), strict=True)
    together = similarities(torch.stack(tokens), torch.stack(lengths))
    for found, sentences in zip(together, sources, strict=True):
        assert torch.equal(found, of(sentences))
    monkeypatch.setattr(similarity, "BLOCK_ELEMENTS", 1)
    assert torch.equal(similarities(torch.stack(tokens), torch.stack(lengths)), together)


@pytest.mark.parametrize("fill", [0, 2, 10**6])
def test_what_pads_does_not_matter(fill):
    sentences = some_sentences(3)
    assert torch.equal(of(sentences, width=20, fill=fill), of(sentences))


def test_what_is_no_sentence_is_like_nothing():
    tokens, lengths = padded(some_sentences(1, 3))
    lengths[1] = 0
    found = similarities(tokens[None], lengths[None])[0]
    assert found[1].tolist() == found[:, 1].tolist() == [0, 0, 0]
    assert math.isclose(found[0, 2].item(), similar(*(tokens[n][: lengths[n]].tolist() for n in (0, 2))))


def test_counts_are_exact_in_half_precision():
    long = torch.zeros(1, 2, 1000, dtype=torch.long)
    lengths = torch.tensor([[1000, 999]])
    with torch.autocast("cpu", torch.bfloat16):
        found = similarities(long, lengths)
    torch.testing.assert_close(found, similarities(long, lengths), rtol=0, atol=0)
    assert found[0, 0, 1].item() == pytest.approx(similar((0,) * 1000, (0,) * 999), abs=1e-12)


def test_numbers():
    values = torch.tensor([[7, -1, 7, 3], [5, 5, 5, 5], [2, 10**12, 0, 2]])
    assert numbered(values).tolist() == [[2, 0, 2, 1], [0, 0, 0, 0], [1, 2, 0, 1]]
