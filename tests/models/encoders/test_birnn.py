import math

import pytest
import torch
from torch import nn

from torch_ctree.models.encoders.birnn import BiRNN

from .. import plain
from ..build import padded, tiny_model

double = torch.float64
SENTENCES = [[1, 2, 3, 4, 0], [4], [2, 0], [3, 3, 1]]


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_as_torch_reads_each_sentence_alone(layers):
    """nn.GRU with all its layers; the root is tanh(linear(the last states of all layers and directions))."""
    model = tiny_model(encoder="birnn", layers=layers).encoder
    assert isinstance(model, BiRNN)
    gru = nn.GRU(4, 2, layers, batch_first=True, bidirectional=True, dtype=double)
    for n, layer in enumerate(model.layers):
        for part, suffix in (("forwards", ""), ("backwards", "_reverse")):
            for name, weight in layer.get_submodule(part).named_parameters():
                gru.get_parameter(name.replace("_l0", f"_l{n}{suffix}")).data.copy_(weight.data)
    encoding = model(*padded(SENTENCES))
    for b, sentence in enumerate(SENTENCES):
        embeddings = model.embedding(torch.tensor([sentence]))
        states, last = gru(embeddings)
        root = [math.tanh(x) for x in plain.linear(model.root, plain.numbers(last.flatten()))]
        torch.testing.assert_close(encoding.root[b], torch.tensor(root, dtype=double))
        for given in (encoding.leaves, encoding.contextual, encoding.internal[:, :, 0]):
            torch.testing.assert_close(given[b, : len(sentence)], states[0])
        assert torch.equal(encoding.embeddings[b, : len(sentence)], embeddings[0])
    assert encoding.mask.sum(1).tolist() == [len(sentence) for sentence in SENTENCES]
