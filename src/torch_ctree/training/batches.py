"""The batches of an epoch, as Lightning's loop asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Turn:
    """A batch that is on the GPU already: only how many pairs it has."""

    pairs: int

    def __len__(self) -> int:
        """Like a batch's."""
        return self.pairs


class Turns(Loader):
    """Turns, in place of batches."""

    def __iter__(self) -> Iterator[Turn]:
        """Those that have not been given."""
        for rows in self.epoch.rows[self.given :]:
            self.given += 1
            yield Turn(len(rows))
        self.given = 0
