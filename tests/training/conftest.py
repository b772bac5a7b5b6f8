from pathlib import Path

import pytest

from tests.training.runs import outcome, settings, train


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """Where the data is: the same for all, since a run remembers it."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def uninterrupted(place, tmp_path_factory) -> tuple[bytes, bytes]:
    """What a run leaves that was never killed."""
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    train(settings(place), folder)
    return outcome(folder)
