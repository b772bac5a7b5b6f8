from pathlib import Path

import pytest

from tests.experiments.tiny import small_here


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """Rows of Table 1 that take seconds → their presets."""
    return small_here(tmp_path, monkeypatch)
