"""What the tests of kernels share."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch


@pytest.fixture
def poison(monkeypatch) -> Callable[[], None]:
    """A call after which new memory holds NaN: what is read before it is written then shows."""

    def filled(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, **kwargs: Any) -> torch.Tensor:
            tensor = make(*args, **kwargs)
            return tensor.fill_(math.nan) if tensor.is_floating_point() else tensor

        return made

    def now() -> None:
        for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
            monkeypatch.setattr(owner, name, filled(getattr(owner, name)))

    return now
