import pytest
import torch

from torch_ctree.models import Encoding
from torch_ctree.models.decoders import CTree
from torch_ctree.models.output import Output

from . import plain
from .build import OUTPUTS, some_batch, tiny_model

double = torch.float64


def parts(output: str) -> tuple[CTree, Output, Encoding]:
    model = tiny_model(output=output)
    assert isinstance(model.decoder, CTree)
    return model.decoder, model.decoder.output, model.encode(some_batch())


@pytest.mark.parametrize("output", OUTPUTS)
def test_by_hand(output):
    _, layer, encoding = parts(output)
    states, contexts = torch.randn(2, 4, 3, 4, dtype=double)
    found = layer.logits(states, contexts, encoding)
    for b in range(4):
        source = plain.source(encoding, b)
        for q in range(3):
            expected = plain.word_logits(layer, states[b, q].tolist(), contexts[b, q].tolist(), source)
            torch.testing.assert_close(found[b, q], torch.tensor(expected, dtype=double), rtol=0, atol=1e-11)


def test_one_attention_serves_contexts_and_words():
    decoder, layer, _ = parts("lexical-attention")
    assert layer.get_submodule("attention") is decoder.attention


def test_lexical_attention_sees_words_without_their_context():
    """Values are of the word alone: in a source of one word repeated, every state says the same, whatever was read."""
    _, layer, _ = parts("lexical-attention")
    encode = tiny_model(output="lexical-attention").encoder
    encoding = encode(torch.tensor([[2, 2, 2, 2]]), torch.tensor([4]))
    logits = layer.logits(torch.randn(1, 6, 4, dtype=double), None, encoding)
    torch.testing.assert_close(logits, logits[:, :1].expand(-1, 6, -1))
    other = layer.logits(torch.randn(1, 1, 4, dtype=double), None, encode(torch.tensor([[2, 3]]), torch.tensor([1])))
    torch.testing.assert_close(other, logits[:, :1])


@pytest.mark.parametrize("output", ["linear", "lexical-attention"])
def test_it_starts_with_all_words_alike(output):
    model = tiny_model(output=output)
    fresh = type(model)(model.config, model.source, model.target)
    assert isinstance(fresh.decoder, CTree)
    logits = fresh.decoder.output.logits(torch.randn(4, 3, 4), None, fresh.encode(some_batch()))
    assert torch.equal(logits, torch.zeros_like(logits))
