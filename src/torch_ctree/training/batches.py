"""The batches of an epoch, as Lightning's loop asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch_ctree.data import Batch, Epoch


@dataclass(frozen=True)
class Turn:
    """A batch that is on the GPU already: only how many pairs it has."""

    pairs: int

    def __len__(self) -> int:
        """Like a batch's."""
        return self.pairs


class Loader:
    """One process's share of an epoch's batches. It remembers how far it is, so that a run can go on from there.

    numbers_only: turns, in place of batches
    """

    def __init__(self, epoch: Epoch, rank: int = 0, processes: int = 1, numbers_only: bool = False) -> None:
        self.epoch, self.rank, self.processes, self.numbers_only = epoch, rank, processes, numbers_only
        self.given = 0

    def __len__(self) -> int:
        """Batches of the whole epoch, given or not."""
        return len(self.epoch)

    def __iter__(self) -> Iterator[Batch | Turn]:
        """The batches that have not been given."""
        left = self.epoch[self.given :]
        for batch in [Turn(len(rows)) for rows in left.rows] if self.numbers_only else left:
            self.given += 1
            is_whole = self.processes == 1 or isinstance(batch, Turn)
            yield batch if is_whole else batch.share(self.rank, self.processes)
        self.given = 0  # whoever asks again gets all of it

    def state_dict(self) -> dict[str, Any]:
        """How far it is."""
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; at its end, an epoch is over."""
        self.given = state["given"] % max(1, len(self.epoch))
