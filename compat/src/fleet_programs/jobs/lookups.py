"""The ids of a program's lookups on their way to the servers, and the gradients of their rows on the way back.

Ids are looked at in host memory, where the request needs them anyway: those that a table cannot have are refused, and
padding is left out. Its rows are zeros made here; servers never hear of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fleet.ps.job.staging import download, upload, wait_for
from fleet.ps.worker.asking.lookup import Lookup
from fleet_programs.executor.faults import PartError


@dataclass(frozen=True)
class Ids:
    """What one lookup asks servers for."""

    count: int
    """Of all ids, padding included."""
    real: torch.Tensor
    """Those that are no padding, in host memory."""
    places: torch.Tensor | None
    """Where those are among all, on the device of the rows; None where there is no padding."""

    def spread(self, rows: torch.Tensor) -> torch.Tensor:
        """A row for every id: zeros for padding."""
        if self.places is None:
            return rows
        return rows.new_zeros(self.count, rows.shape[1]).index_copy_(0, self.places, rows)

    def picked(self, gradients: torch.Tensor) -> torch.Tensor:
        """Of the gradients of all ids, those that servers are told."""
        return gradients if self.places is None else gradients.index_select(0, self.places)


class Shared:
    """All lookups of one table in one operator."""

    def __init__(self, lookup: Lookup, positions: Sequence[int], ids: Sequence[Ids]) -> None:
        self.lookup = lookup
        self.positions = positions
        self._ids = [ids[position] for position in positions]

    def split(self) -> list[torch.Tensor]:
        """The rows of each lookup."""
        rows = self.lookup.rows
        assert rows is not None
        found = rows.detach().index_select(0, self.lookup.inverse)
        parts = [found] if len(self._ids) == 1 else found.split([len(ids.real) for ids in self._ids])
        return [ids.spread(part) for ids, part in zip(self._ids, parts, strict=True)]

    def add(self, grads: Sequence[torch.Tensor]) -> None:
        """The gradients of each lookup's rows; they go out with the next push."""
        rows = self.lookup.rows
        assert rows is not None
        width = rows.shape[1]
        flat = [ids.picked(grad.reshape(-1, width)) for ids, grad in zip(self._ids, grads, strict=True)]
        total = torch.zeros_like(rows, requires_grad=False)
        rows.grad = total.index_add_(0, self.lookup.inverse, flat[0] if len(flat) == 1 else torch.cat(flat))


class Reader:
    """Reads the ids of one operator's lookups; `heights` of 0 stand for tables of any ids, paddings of -1 for none."""

    def __init__(
        self, tables: Sequence[str], heights: Sequence[int], paddings: Sequence[int], device: torch.device
    ) -> None:
        self._limits = list(zip(tables, heights, paddings, strict=True))
        self._device = device

    def read(self, given: Sequence[torch.Tensor]) -> list[Ids]:
        """What each lookup asks for; UsageError names an id that is not in its table."""
        flat = [download(ids.detach().reshape(-1)) for ids in given]
        for device in {ids.device for ids in given}:
            wait_for(device)
        return [self._read(number, ids.long(), *self._limits[number]) for number, ids in enumerate(flat)]

    def _read(self, number: int, ids: torch.Tensor, table: str, height: int, padding: int) -> Ids:
        if height and len(ids):
            _check(number, ids, table, height)
        if padding < 0:
            return Ids(len(ids), ids, None)
        kept = (ids != padding).nonzero().squeeze(1)
        if len(kept) == len(ids):
            return Ids(len(ids), ids, None)
        return Ids(len(ids), ids[kept], upload(kept, self._device))


def _check(number: int, ids: torch.Tensor, table: str, height: int) -> None:
    low, high = (int(end) for end in torch.aminmax(ids))
    if low < 0 or high >= height:
        wrong = low if low < 0 else high
        raise PartError(
            number,
            f"id {wrong} is not in table {table!r}, whose ids are 0 to {height - 1}; give the embedding a larger size, "
            "or is_distributed=True for any ids",
        )
