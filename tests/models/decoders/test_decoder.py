import itertools

import pytest
import torch

from torch_ctree.models import Decoded

from ..build import padded, sentences


@pytest.mark.parametrize("fills", [(0, 0), (0, 1), (1, 0)])
def test_an_answer_matches_just_its_own_sentence(fills):
    """All pairs of short sentences, padded with words that the other has, and to other widths."""
    everything = list(sentences(2, 3))
    pairs = list(itertools.product(everything, everything))
    (answers, lengths), theirs = (
        padded([p[0] for p in pairs], fills[0], 3),
        padded([p[1] for p in pairs], fills[1], 5),
    )
    decoded = Decoded(answers, lengths, torch.zeros(len(pairs)))
    assert decoded.matches(*theirs).tolist() == [a == b for a, b in pairs]
    assert Decoded(*theirs, torch.zeros(len(pairs))).matches(answers, lengths).tolist() == [a == b for a, b in pairs]


def test_several_answers_at_once():
    tokens, lengths = padded([[1], [1, 2], [2, 1], [2]])
    decoded = Decoded(tokens.reshape(2, 2, 2), lengths.reshape(2, 2), torch.zeros(2, 2))
    assert decoded.matches(*padded([[1], [2]])).tolist() == [[True, False], [False, True]]


def test_no_answer_matches_nothing():
    decoded = Decoded(torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, dtype=torch.long), torch.zeros(1))
    assert decoded.matches(*padded([[0, 0]])).tolist() == [False]
