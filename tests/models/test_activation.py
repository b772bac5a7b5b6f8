import pytest
import torch

from torch_ctree.models.activation import Activation

from . import plain


@pytest.mark.parametrize("weights", [True, False])
def test_tanh_of_layernorm(weights):
    layer = Activation(6, weights).double()
    assert len(list(layer.parameters())) == 2 * weights
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x = torch.randn(4, 6, dtype=torch.float64)
    expected = torch.tensor([plain.activation(layer, row) for row in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)
