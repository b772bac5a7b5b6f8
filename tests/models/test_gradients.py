from dataclasses import replace

import pytest
import torch
from torch.func import functional_call

from .build import EVERYTHING, make_batch, some_batch, tiny_model

IDLE = ("attention.key.2.bias", "encoder.score.2.bias", "decoder.key.bias")
"""Adds the same to every score that a softmax then compares: no loss depends on it."""


def used(model):
    """Every parameter by name; decoders made of Transformer layers have no use for the root."""
    unused = ("encoder.root.",) if model.config.decoder in ("transformer", "lanmt") else ()
    return {name: parameter for name, parameter in model.named_parameters() if not name.startswith(unused)}


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_every_parameter_has_its_gradient(settings):
    model = tiny_model(**settings, decoder_layers=2, width=8)
    model.loss(make_batch([[1, 2, 3, 4, 0, 2, 3], [4, 2], [2, 0, 1]], [[2, 1, 0], [0, 2, 1, 1], [1]])).backward()
    for name, parameter in used(model).items():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        largest = parameter.grad.abs().max().item()
        assert largest < 1e-12 if name.endswith(IDLE) else largest > 1e-8, f"{name}: {largest}"


@pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)
def test_in_training_too(settings):
    """With dropout, in single precision, from the weights that a model starts with."""
    model = tiny_model(**settings, width=8)
    fresh = type(model)(model.config, model.source, model.target).train()
    loss = fresh.loss(some_batch())
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in used(fresh).values())


@pytest.mark.parametrize(
    "name",
    [
        "decoder.leaf.weight",
        "decoder.root.weight",
        "decoder.production.first.bias",
        "decoder.attention.query.1.weight",
        "decoder.output.words",
        "encoder.cell.from_memory.weight",
        "encoder.embedding.weight",
    ],
)
def test_gradients_of_the_tree_model_are_derivatives(name):
    model = tiny_model(width=2, slots=2, target_words=2)
    batch = make_batch([[1, 2, 3], [4]], [[1, 0, 1], [0, 1]])
    assert torch.autograd.gradcheck(
        lambda value: functional_call(_Score(model), {f"model.{name}": value}, (batch,)),
        (model.get_parameter(name).detach().requires_grad_(),),
    )


class _Score(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.score(batch)


def test_sources_of_one_word_with_padding_reach_every_weight():
    """Or data-parallel training would wait for a gradient that never comes."""
    model = tiny_model(encoder="ordered-memory")
    batch = make_batch([[0], [3]], [[0, 1], [2]])
    model.loss(replace(batch, source=torch.nn.functional.pad(batch.source, (0, 1)))).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
