import torch

from torch_ctree.models.activation import Activation
from torch_ctree.models.production import Production

from . import plain
from .build import tiny_model

double = torch.float64


def test_by_hand():
    layer = tiny_model().decoder.get_submodule("production")
    assert isinstance(layer, Production)
    states, contexts = torch.randn(2, 3, 5, 4, dtype=double)
    found = layer(states, contexts)
    assert found.shape == (3, 5, 2, 4)
    for i in range(3):
        for j in range(5):
            expected = plain.production(layer, states[i, j].tolist(), contexts[i, j].tolist())
            torch.testing.assert_close(found[i, j], torch.tensor(expected, dtype=double), rtol=0, atol=1e-12)


def test_closed_gates_keep_the_state_and_open_ones_forget_it():
    layer = Production(4, Activation(4)).double()
    states, contexts = torch.randn(2, 3, 4, dtype=double)
    with torch.no_grad():
        layer.second.bias[:8] = -1000
        assert torch.equal(layer(states, contexts), states[:, None].expand(-1, 2, -1))
        layer.second.bias[:8] = 1000
        layer.first.weight[:, :4] = 0  # the hidden layer does not see the state either
        torch.testing.assert_close(layer(states, contexts), layer(torch.zeros_like(states), contexts))


def test_it_starts_with_xavier_weights_and_no_bias():
    layer = Production(32, Activation(32))
    for part in (layer.first, layer.second):
        bound = (6 / sum(part.weight.shape)) ** 0.5
        assert 0.99 * bound < part.weight.abs().max().item() <= bound
        assert not part.bias.any()
