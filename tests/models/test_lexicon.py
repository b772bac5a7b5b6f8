import math

import pytest
import torch

from torch_ctree.models.lexicon import Lexicon

from . import plain

double = torch.float64


def tiny_lexicon(width=4, words=3, source_words=5) -> Lexicon:
    torch.manual_seed(0)
    lexicon = Lexicon(width, words, source_words).double()
    with torch.no_grad():
        for parameter in lexicon.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return lexicon


def says_by_hand(lexicon: Lexicon, tokens: list[int]) -> plain.Vector:
    """Probabilities of words, for a phrase of these tokens."""
    table = plain.numbers(lexicon.source.weight)
    source = [plain.activation(lexicon.source_activation, table[token]) for token in tokens]
    words = [plain.activation(lexicon.words_activation, word) for word in plain.numbers(lexicon.words)]
    each = [plain.softmax([plain.dot(word, vector) * lexicon.scale for word in words]) for vector in source]
    shares = plain.softmax([plain.linear(lexicon.weight, vector)[0] for vector in source])
    return plain.average(shares, each)


def test_by_hand():
    lexicon = tiny_lexicon()
    tokens = torch.tensor([[1, 2, 3, 2], [4, 0, 0, 1]])
    covered = torch.rand(2, 6, 4) < 0.5
    covered[:, :, 1] |= ~covered.any(-1)
    said = lexicon(tokens, covered)
    assert said.shape == (2, 6, 3)
    for b in range(2):
        for p in range(6):
            expected = says_by_hand(lexicon, tokens[b, covered[b, p]].tolist())
            torch.testing.assert_close(said[b, p].exp(), torch.tensor(expected, dtype=double), rtol=0, atol=1e-9)


def test_it_is_a_distribution():
    said = tiny_lexicon(words=7)(torch.tensor([[0, 1, 2]]), torch.tensor([[[True, False, True], [True, True, True]]]))
    torch.testing.assert_close(said.exp().sum(-1), torch.ones(1, 2, dtype=double))


def test_a_word_says_the_same_wherever_it_stands():
    lexicon = tiny_lexicon()
    alone = torch.eye(4, dtype=torch.bool)[None]
    said = lexicon(torch.tensor([[3, 1, 3, 0]]), alone)
    assert torch.equal(said[0, 0], said[0, 2])
    torch.testing.assert_close(lexicon(torch.tensor([[3]]), torch.ones(1, 1, 1, dtype=torch.bool))[0, 0], said[0, 0])
    assert not torch.allclose(said[0, 0], said[0, 1])


def test_words_that_are_not_covered_have_no_gradient():
    lexicon = tiny_lexicon()
    lexicon(torch.tensor([[0, 1, 2]]), torch.tensor([[[True, False, True]]]))[0, 0, 1].backward()
    assert lexicon.source.weight.grad is not None
    assert lexicon.source.weight.grad.any(1).tolist() == [True, False, True, False, False]


def test_impossible_words_have_finite_gradients():
    """What is less probable than any number is as improbable as the least one."""
    lexicon = Lexicon(4, 3, 2)
    lexicon.scale = 1e4
    said = lexicon(torch.tensor([[0]]), torch.ones(1, 1, 1, dtype=torch.bool))
    assert said.min().item() == pytest.approx(math.log(torch.finfo(torch.float32).tiny))
    said.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in lexicon.parameters())
