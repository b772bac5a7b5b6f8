import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from torch_ctree.data import multi30k
from torch_ctree.data.downloads import digest

from .tiny_multi30k import contents

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports it
    with suppress(ImportError):  # there is no Triton
        from .interpreting import hurry

        hurry()

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background: tests of Ctrl-C would wait forever
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # as in the processes that are compared with; and other tests may run at the same time

# The same examples everywhere, and no limit on how long one may take: a first call compiles.
settings.register_profile("exact", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("exact")

OFFICIAL = os.environ.get("CTREE_DATA")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile switches it off for good


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch, tmp_path_factory):
    """What is on this machine must not change what a test sees."""
    monkeypatch.delenv("CTREE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def official() -> Path:
    """The folder with the official files, where CTREE_DATA names one."""
    if not OFFICIAL:
        pytest.skip("CTREE_DATA names no folder with the official files")
    return Path(OFFICIAL)


@pytest.fixture
def tiny(monkeypatch):
    """The tiny Multi30k passes for the real one."""
    monkeypatch.setattr(multi30k, "SHA256", {name: digest(content) for name, content in contents().items()})
