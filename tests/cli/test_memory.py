import sys

import numpy as np
import pytest
import torch

from torch_ctree.cli.memory import is_out_of_memory, within_memory

MUCH = 2**47  # bytes, which no machine has


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much is free")
@pytest.mark.parametrize("make", [lambda: torch.empty(MUCH, dtype=torch.uint8), lambda: np.ones(MUCH, np.uint8)])
def test_what_is_too_much_is_refused(make):
    with pytest.raises((MemoryError, RuntimeError)) as error, within_memory():
        make()
    assert is_out_of_memory(error.value)
    with within_memory():
        assert torch.ones(10).sum() == 10


def test_other_errors_stay():
    with pytest.raises(RuntimeError, match="cannot be multiplied") as error, within_memory():
        torch.mm(torch.ones(1, 2), torch.ones(3, 3))
    assert not is_out_of_memory(error.value)
