import pytest
import torch
from hypothesis import settings

# The same examples everywhere, and no limit on how long one may take: a first call compiles.
settings.register_profile("exact", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("exact")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
