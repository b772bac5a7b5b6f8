import pytest
import torch
from torch import nn

from torch_ctree.models import ModelConfig
from torch_ctree.models.encoders.contextualiser import Contextualiser
from torch_ctree.models.encoders.recurrence import Bidirectional, at_end, real, reversal, take

double = torch.float64
LENGTHS = torch.tensor([5, 1, 3, 2])


def reference(layer: Bidirectional) -> nn.GRU:
    """torch's own, with the same weights."""
    inputs, half = layer.forwards.input_size, layer.forwards.hidden_size
    gru = nn.GRU(inputs, half, batch_first=True, bidirectional=True, dtype=double)
    weights = {**layer.forwards.state_dict()}
    weights |= {f"{name}_reverse": weight for name, weight in layer.backwards.state_dict().items()}
    gru.load_state_dict(weights)
    return gru


@pytest.mark.parametrize(("inputs", "width"), [(4, 6), (6, 6), (3, 2)])
def test_as_torch_reads_each_sentence_alone(inputs, width):
    layer = Bidirectional(inputs, width).double()
    x = torch.randn(4, 5, inputs, dtype=double)
    states, last = layer(x, LENGTHS)
    gru = reference(layer)
    for b, length in enumerate(LENGTHS.tolist()):
        expected, final = gru(x[b : b + 1, :length])
        torch.testing.assert_close(states[b, :length], expected[0])
        torch.testing.assert_close(last[b], final.flatten())


def test_reversal_turns_sentences_and_leaves_padding():
    assert reversal(LENGTHS, 5).tolist() == [[4, 3, 2, 1, 0], [0, 1, 2, 3, 4], [2, 1, 0, 3, 4], [1, 0, 2, 3, 4]]


def test_turned_twice_is_as_before():
    x, order = torch.randn(4, 5, 3), reversal(LENGTHS, 5)
    assert torch.equal(take(take(x, order), order), x)


def test_the_last_token_and_the_real_ones():
    x = torch.arange(20).reshape(4, 5, 1)
    assert at_end(x, LENGTHS).flatten().tolist() == [4, 5, 12, 16]
    assert real(LENGTHS, 5).int().tolist() == [[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]


@pytest.mark.parametrize("kind", ["bidirectional", "forward", "none"])
def test_what_a_state_knows(kind):
    """The derivative of the state at place j by the word at place i says whether i was read."""
    layer = Contextualiser(ModelConfig(width=4, contextualiser=kind)).double()
    x = torch.randn(1, 4, 4, dtype=double)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, torch.tensor([3])), x)
    assert isinstance(jacobian, torch.Tensor)
    read = (jacobian[0, :, :, 0].abs().amax((1, 3)) > 0)[:3].int().tolist()  # [state][word]
    assert (
        read
        == {
            "bidirectional": [[1, 1, 1, 0]] * 3,
            "forward": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]],
            "none": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]],
        }[kind]
    )
