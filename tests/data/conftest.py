import os
from pathlib import Path

import pytest

GIVEN = os.environ.get("CTREE_DATA")


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch, tmp_path_factory):
    """What is on this machine must not change what a test sees."""
    monkeypatch.delenv("CTREE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def official() -> Path:
    """The folder with the official files, where CTREE_DATA names one."""
    if not GIVEN:
        pytest.skip("CTREE_DATA names no folder with the official files")
    return Path(GIVEN)
