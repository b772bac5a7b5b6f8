"""Living with ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

import torch

P = ParamSpec("P")
R = TypeVar("R")


def outside_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function as it is when a compiled function calls it: NumPy and Numba inside cannot be traced.

    ``torch.compiler.disable`` does that too, but imports the compiler, which takes as long as importing torch.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            untraced = cast(Callable[P, R], torch.compiler.disable(function))
            return untraced(*args, **kwargs)
        return function(*args, **kwargs)

    return call
