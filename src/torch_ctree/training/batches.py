"""The batches of an epoch, as Lightning's loop asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch_ctree.data import Batch, Epoch


class Loader:
    """One process's share of an epoch's batches. It remembers how far it is, so that a run can go on from there."""

    def __init__(self, epoch: Epoch, rank: int = 0, processes: int = 1) -> None:
        self.epoch, self.rank, self.processes = epoch, rank, processes
        self.given = 0

    def __len__(self) -> int:
        """Batches of the whole epoch, given or not."""
        return len(self.epoch)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that have not been given."""
        for batch in self.epoch[self.given :]:
            self.given += 1
            yield batch if self.processes == 1 else batch.share(self.rank, self.processes)
        self.given = 0  # whoever asks again gets all of it

    def state_dict(self) -> dict[str, Any]:
        """How far it is."""
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; at its end, an epoch is over."""
        self.given = state["given"] % max(1, len(self.epoch))
