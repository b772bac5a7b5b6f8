"""Triton's interpreter, in two thirds of its time.

It puts its own functions into Triton's language at each launch, and then again, though they are there already, at every
call of one kernel's function by another. The second is left out here; what is computed, and checked, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def patched_once_a_launch() -> None:
    """From now on; of a Triton that works in another way, nothing is changed."""
    if not hasattr(interpreter, "_LangPatchScope"):
        return
    patch: Callable[[Any], Any] = interpreter._patch_lang
    inside: set[str] = set()
    """The modules that have been patched in the launch that is under way."""

    def patch_once(fn: Any) -> Any:
        seen = {module.__name__ for module in (tl, tl.core) if any(module is one for one in fn.__globals__.values())}
        if inside and seen <= inside:
            return None  # which a call of one function by another does not look at
        scope, is_launch = patch(fn), not inside
        inside.update(seen)
        if is_launch:
            restore = scope.restore

            def end() -> None:
                inside.clear()
                restore()

            scope.restore = end
        return scope

    interpreter._patch_lang = patch_once
