"""What is wrong with a run, said in one line."""

from __future__ import annotations


class TrainingError(ValueError):
    """What is wrong, where, and how to mend it, in one line that can be shown to a user as it is."""
