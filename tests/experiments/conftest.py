from pathlib import Path

import pytest

from tests.experiments.tiny import small_here
from tests.processes import from_one
from torch_ctree.training import pool


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """Rows of Table 1 that take seconds, in processes that begin in no time → their presets."""
    monkeypatch.setattr(pool, "SPAWN", from_one())
    return small_here(tmp_path, monkeypatch)
