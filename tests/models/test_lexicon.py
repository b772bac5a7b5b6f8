import math

import pytest
import torch
from torch import Tensor

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


def meanings(lexicon: Lexicon) -> list[plain.Vector]:
    """Of each source word how much it says of each target word: these are divided first, and then what is too much."""
    source = [plain.activation(lexicon.source_activation, word) for word in plain.numbers(lexicon.source)]
    words = [plain.activation(lexicon.words_activation, word) for word in plain.numbers(lexicon.words)]
    divided = [plain.softmax([lexicon.scale * plain.dot(word, vector) for vector in source]) for word in words]
    owned = [[shares[v] for shares in divided] for v in range(len(source))]
    return [plain.scaled(1 / max(1, math.fsum(row)), row) for row in owned]


def everything(lexicon: Lexicon) -> Tensor:
    """(V, K): what every source word says."""
    return lexicon(torch.arange(len(lexicon.source))[None])[0].detach()


SIZES = pytest.mark.parametrize(("words", "source_words"), [(3, 5), (7, 2), (1, 4), (4, 1)])
"""More source words than target words, and fewer."""


@SIZES
def test_by_hand(words, source_words):
    lexicon = tiny_lexicon(6, words, source_words)
    tokens = torch.randint(source_words, (2, 4))
    said = lexicon(tokens)
    assert said.shape == (2, 4, words)
    for b, s in ((b, s) for b in range(2) for s in range(4)):
        expected = torch.tensor(meanings(lexicon)[tokens[b, s]], dtype=double)
        torch.testing.assert_close(said[b, s], expected, rtol=0, atol=1e-12)


@SIZES
def test_a_word_says_one_word_at_most_and_nothing_is_said_by_all_more_than_once(words, source_words):
    said = everything(tiny_lexicon(4, words, source_words))
    assert (said > 0).all()
    assert (said.sum(1) <= 1 + 1e-12).all()
    assert (said.sum(0) <= 1 + 1e-12).all()
    if said.sum(1).amax() < 1 - 1e-6 or words == 1:  # no word would have said more than it can
        torch.testing.assert_close(said.sum(0), torch.ones(words, dtype=double))
    if source_words == 1:  # it would say everything
        torch.testing.assert_close(said, torch.full((1, words), 1 / words, dtype=double))


@SIZES
def test_at_first_all_words_say_the_same(words, source_words):
    """Of everything as much, whatever the target words are."""
    torch.manual_seed(1)
    said = everything(Lexicon(8, words, source_words).double())
    share = min(1 / source_words, 1 / words)
    torch.testing.assert_close(said, torch.full((source_words, words), share, dtype=double))


def test_what_one_word_owns_is_not_for_others():
    lexicon, direction = Lexicon(4, 2, 4).double(), torch.randn(4)
    lexicon.scale = 100
    with torch.no_grad():
        lexicon.words.copy_(torch.stack([direction, -direction]))
        lexicon.source.copy_(torch.stack([direction, -direction, -direction, -direction]))
    expected = torch.tensor([[1, 0], [0, 1 / 3], [0, 1 / 3], [0, 1 / 3]], dtype=double)  # the other is for three
    torch.testing.assert_close(everything(lexicon), expected, rtol=0, atol=1e-12)


def test_who_learns_a_word_takes_it_from_others():
    """At first from each as much: also from those that are not in the sentence."""
    lexicon = Lexicon(4, 3, 5).double()
    before = everything(lexicon)
    lexicon(torch.tensor([[2]]))[0, 0, 1].backward()
    assert lexicon.source.grad is not None
    with torch.no_grad():
        lexicon.source.add_(lexicon.source.grad, alpha=1e-5)
    change = (everything(lexicon) - before)[:, 1]
    assert (change > 0).tolist() == [False, False, True, False, False]
    assert change[[0, 1, 3, 4]].tolist() == pytest.approx([-change[2].item() / 4] * 4)


def test_a_word_says_the_same_wherever_it_stands():
    lexicon = tiny_lexicon()
    said = lexicon(torch.tensor([[3, 1, 3, 0]]))
    assert torch.equal(said[0, 0], said[0, 2])
    assert torch.equal(lexicon(torch.tensor([[3]]))[0, 0], said[0, 0])
    assert not torch.allclose(said[0, 0], said[0, 1])
