"""What benchmarks/searches.py tries: whatever makes a difference to a decoder, and nothing else."""

import argparse
import runpy
from pathlib import Path

import pytest

from tests.models.build import tiny_model

SEARCHES = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "searches.py"))["searches"]
GIVEN = argparse.Namespace(beam=[1, 5], length_penalty=[0.0, 1.5], candidates=[8])
RISK = [{"search": "risk", "candidates": 8, "length_penalty": penalty} for penalty in (0.0, 1.5)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {},
            [
                {"search": "tree", "length_penalty": 0.0},
                {"search": "tree", "length_penalty": 1.5},
                {"search": "sentence", "candidates": 8, "length_penalty": 0.0},
                {"search": "sentence", "candidates": 8, "length_penalty": 1.5},
                *RISK,
            ],
        ),
        (
            {"decoder": "gru", "output": "mlp"},
            [
                *(
                    {"search": "tree", "beam": beam, "length_penalty": penalty}
                    for beam in (1, 5)
                    for penalty in (0.0, 1.5)
                ),
                *RISK,
            ],
        ),
        ({"decoder": "lanmt", "encoder": "transformer", "output": "mlp"}, [{"search": "tree"}, *RISK]),
        ({"decoder": "grammar", "encoder": "spans"}, [{"search": "tree"}]),
    ],
)
def test_the_settings_that_are_tried(settings, expected):
    model = tiny_model(**settings)
    assert list(SEARCHES(model, GIVEN)) == expected
    for some in expected:
        model.with_search(**some)
