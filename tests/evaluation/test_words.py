from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import Subwords
from torch_ctree.evaluation import words_of


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ("a man .", "a man ."),
        ("▁a ▁man ▁.", "a man ."),
        ("▁A ▁m an .", "A m+an ."),
        ("▁T - Shirt ,", "T+-+Shirt ,"),
        ('▁" A ▁m an ." )', '" A m+an ." )'),
        ("▁& quot ; ▁& apos ; s ▁b", "&+quot+; &+apos+;+s b"),
        ("▁ ( a )", "▁+( a )"),
        ("▁ a", "▁+a"),
        ("▁ ▁ ) )", "▁ ▁+) )"),
        ("an ▁a", "an a"),
        ("▁... ▁!", "... !"),
        ("▁ l \\xc3 \\xb6 we", "▁+l+\\xc3+\\xb6+we"),
    ],
)
def test_by_hand(leaves, expected):
    found = words_of(leaves.split())
    assert ["+".join(leaves.split()[slice(*word.span)]).removeprefix("▁") for word in found] == [
        part.removeprefix("▁") for part in expected.split()
    ]
    assert [word.text for word in found] == [part.replace("+", "").removeprefix("▁") for part in expected.split()]


def test_nothing():
    assert words_of([]) == []


@given(st.lists(st.text("▁ab.,&;(", min_size=1, max_size=4), max_size=10))
def test_every_leaf_is_in_one_word(leaves):
    spans = [word.span for word in words_of(leaves)]
    assert [at for start, end in spans for at in range(start, end)] == list(range(len(leaves)))
    for (_, end), (start, _) in pairwise(spans):
        assert end == start


@pytest.mark.parametrize("size", [256, 260, 300, 400])
def test_pieces_of_text_are_its_words(size):
    """However small they are; marks that are one piece are one word."""
    text = 'Ein Hündchen jagt "Bälle", und (zwei) Männer schauen zu.'
    subwords = Subwords.train([text] * 9, size=size)
    tokens = subwords.encode(text)
    leaves = [subwords[token] for token in tokens]
    found = [subwords.decode(tokens[slice(*word.span)]) for word in words_of(leaves)]
    assert " ".join(found).replace('" ,', '",') == 'Ein Hündchen jagt " Bälle ", und ( zwei ) Männer schauen zu .'
