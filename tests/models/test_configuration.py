import dataclasses
import itertools
import json

import pytest

from torch_ctree.models import ModelConfig, ModelError, Seq2Seq

from .build import words

WHOLE = ("width", "slots", "layers", "decoder_layers", "beam", "operators", "stays", "window", "latent", "candidates")
NOT_WHOLE = (0, -2, 2.0, "4", None, True)
SHARES = ("dropout", "attention_dropout", "word_noise", "phrase_dropout")
NO_SHARES = (-0.1, 1, 1.0, "0.1", None, False, float("nan"))
BAD = [
    *((name, value, "a whole number, 1 or more") for name, value in itertools.product(WHOLE, NOT_WHOLE)),
    *((name, value, "a number from 0 to less than 1") for name, value in itertools.product(SHARES, NO_SHARES)),
    *(("stay_operators", value, "a whole number, 1 to 12") for value in (0, 13, 2.0, True, "3")),
    *(("refinements", value, "a whole number, 0 or more") for value in (-1, 2.0, True, None)),
    *(("free_bits_steps", value, "a whole number, 1 or more") for value in (0, 2.0, True, "3")),
    *(("free_bits", value, "a number, 0 or more") for value in (-0.1, "1", None, True, float("inf"), float("nan"))),
    *(("depth", value, "a whole number from 0 to 20") for value in (-1, 21, 3.0, True, "3")),
    *(("output", value, "mlp or linear or lexical-attention") for value in ("mpl", None, ["mlp"])),
    *(("search", value, "tree or sentence or risk") for value in ("best", None, ["risk"])),
    *(("contextualiser", value, "bidirectional or forward or none") for value in ("both", None)),
    *((name, value, "a name") for name, value in itertools.product(["encoder", "decoder"], [None, 3, ["gru"]])),
    *(("options", value, "settings by name") for value in (None, [1])),
    ("width", 5, "an even number"),
]


@pytest.mark.parametrize(("name", "value", "expected"), BAD)
def test_bad_values_are_told_in_one_line(name, value, expected):
    with pytest.raises(ModelError) as caught:
        ModelConfig(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}: got {value!r};")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(),
        ModelConfig(depth=0, dropout=0, attention_dropout=0.0),
        ModelConfig(
            *("birnn", "lstm", "mlp", "none", 16, 3, 2, 1, 2, 8, 0.5, 0, 4, 3, 2, 5, 0.3),
            context="root",
            options={"heads": 2, "deep": {"er": [1, 2]}},
        ),
    ],
)
def test_there_and_back(config):
    values = config.to_dict()
    assert ModelConfig.from_dict(values) == config
    assert ModelConfig.from_dict(json.loads(json.dumps(values))) == config
    assert values.keys() == {field.name for field in dataclasses.fields(ModelConfig)}


def test_settings_that_are_left_out_are_the_defaults():
    assert ModelConfig.from_dict({"width": 16}) == ModelConfig(width=16)
    assert ModelConfig.from_dict({"width": 16, "as_released": False}) == ModelConfig(width=16)  # of an earlier version
    with pytest.raises(ModelError, match="got the setting 'as_released'"):
        ModelConfig.from_dict({"as_released": True})


@pytest.mark.parametrize(
    ("values", "message"),
    [({"wdith": 3}, "the setting 'wdith'"), ({1: 2}, "the setting 1"), ([], r"got \[\]"), (None, "got None")],
)
def test_strange_settings(values, message):
    with pytest.raises(ModelError, match=message) as caught:
        ModelConfig.from_dict(values)
    assert "\n" not in str(caught.value)


def test_it_cannot_be_changed():
    config = ModelConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "orderd-memory"}, "encoder: got 'orderd-memory'; did you mean 'ordered-memory'?"),
        ({"decoder": "ctre"}, "decoder: got 'ctre'; did you mean 'ctree'?"),
        ({"encoder": "cnn"}, "encoder: got 'cnn'; expected one of ordered-memory, birnn, spans, transformer"),
        ({"decoder": "?"}, "decoder: got '?'; expected one of ctree, grammar, production, gru, lstm, transformer"),
        ({"encoder": "transformer", "heads": 3}, "heads: got 3; expected a number that divides the width, 128"),
        ({"depth": None}, "depth: got None; expected a number"),
        (
            {"decoder": "grammar"},
            "encoder: got 'ordered-memory'; expected one that reads phrases, such as 'spans', for the decoder",
        ),
    ],
)
def test_what_no_model_can_be_made_of(settings, message):
    with pytest.raises(ModelError) as caught:
        Seq2Seq(ModelConfig(**{"depth": 2, **settings}), words("s", 2), words("t", 2))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
