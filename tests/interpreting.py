"""Triton's interpreter, in half of its time: without what it does for nothing.

It puts its own functions into Triton's language at each launch, and then again, though they are there already, at every
call of one kernel's function by another. And it finds out whether integers overflow, but tells nobody unless it debugs.
Both are left out here; what is computed, and checked, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def hurry() -> None:
    """From now on; of a Triton that works in another way, nothing is changed."""
    if not hasattr(interpreter, "_LangPatchScope"):
        return
    builder = interpreter.interpreter_builder
    if not builder.options.debug:
        builder.options = replace(builder.options, sanitize_overflow=False)
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
