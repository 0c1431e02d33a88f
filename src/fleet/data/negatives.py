"""`fleet.data.Negatives`: items that a sample did not choose, which a model learns to tell from the one that it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.data.columns.records import Batch, SlotValues
from fleet.data.shards.base import Shard
from fleet.errors import UsageError, UsageTypeError

Ids = npt.NDArray[np.int64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MOST_TRIES = 16
"""How often items of the row itself are drawn again, before those that are left are looked up one row at a time."""


Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class AliasTable:
    """Place i is drawn with probability weights[i] / sum(weights)."""

    def __init__(self, weights: Floats) -> None:
        """Each place has 1 / n of the line; what a rare one leaves of its part goes to one frequent one.

        The rare are filled up in order by the frequent ones. A frequent one that has given too much is filled up by
        the next: how far each has come is a sum over those before it, so that all are found at once.
        """
        num = len(weights)
        share = weights * (num / weights.sum())
        rare, frequent = np.flatnonzero(share < 1), np.flatnonzero(share >= 1)
        wanted, given = np.cumsum(1 - share[rare]), np.cumsum(share[frequent] - 1)
        self._own = np.ones(num)
        self._other = np.arange(num)
        if len(frequent) in (0, num):  # all alike, but for rounding
            return
        before = np.concatenate([[0.0], wanted[:-1]])
        giver = np.minimum(np.searchsorted(given, before), len(frequent) - 1)
        self._own[rare] = share[rare]
        self._other[rare] = frequent[giver]
        overdrawn = np.searchsorted(wanted, given[:-1], side="right")
        is_overdrawn = overdrawn < len(wanted)
        places = frequent[:-1][is_overdrawn]
        self._own[places] = 1 + given[:-1][is_overdrawn] - wanted[overdrawn[is_overdrawn]]
        self._other[places] = frequent[1:][is_overdrawn]

    def draw(self, uniform: Floats) -> Places:
        """The places of numbers that lie evenly in [0, 1)."""
        scaled = uniform * len(self._own)
        place = scaled.astype(np.int64)
        return np.where(scaled - place < self._own[place], place, self._other[place])

    def shares(self) -> Floats:
        """The probability of each place, as the table has it."""
        num = len(self._own)
        return (self._own + np.bincount(self._other, 1 - self._own, num)) / num


class Negatives:
    """Draws `num` items for each row, with replacement, a popular one more often: in proportion to count ** power.

    `items` are ids; one that stands there several times counts as often, so the item column of the training data will
    do. `counts` says it instead. With `power=0`, or where all counts are the same, all are drawn alike.

    What is drawn depends on the seed, the epoch, the worker and the position of the row, and nothing else: not on the
    size of batches, nor on what was drawn before.

    >>> negatives = fleet.data.Negatives(torch.tensor([10, 10, 20, 30]), num=2)
    >>> negatives.draw(3).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        items: torch.Tensor | npt.NDArray[Any] | Sequence[int],
        num: int,
        *,
        counts: torch.Tensor | npt.NDArray[Any] | Sequence[float] | None = None,
        power: float = 0.75,
        seed: int = 0,
    ) -> None:
        if num < 1:
            raise UsageError(f"num must be at least 1, got {num}")
        if not 0 <= power < float("inf"):
            raise UsageError(f"power must be at least 0, got {power}")
        given = _ids(items)
        if not len(given):
            raise UsageError("there are no items to draw from")
        if counts is None:
            self.items, times = np.unique(given, return_counts=True)
            weights = times.astype(np.float64)
        else:
            self.items, weights = _sorted(given, np.asarray(counts, dtype=np.float64))
        self.num = num
        self.seed = seed
        self._table = AliasTable(np.power(weights, power))

    def draw(
        self,
        rows: int,
        *,
        epoch: int = 0,
        position: int = 0,
        worker: int = 0,
        without: SlotValues | None = None,
    ) -> torch.Tensor:
        """int64 [rows, num]: for the rows at `position`, `position` + 1, ...

        `without` has items that must not be drawn for each row: [rows, k], or (values, offsets). Ids in it that are no
        items, such as padding, do no harm.
        """
        base = _mixed(_mixed(_mixed(np.uint64(self.seed % 2**64)) + np.uint64(epoch)) + np.uint64(worker))
        with np.errstate(over="ignore"):
            keys = _mixed(base + _mixed(np.uint64(position) + np.arange(rows, dtype=np.uint64)))
        drawn = self._drawn(keys, np.arange(self.num, dtype=np.uint64)[None, :])
        if without is not None:
            self._redraw(drawn, keys, without)
        return torch.from_numpy(self.items[drawn])

    def add(
        self,
        batch: Batch,
        *,
        slot: str = "negatives",
        without: Sequence[int | str] = (),
        epoch: int = 0,
        position: int = 0,
        worker: int = 0,
    ) -> Batch:
        """The batch with a slot of what was drawn, [B, num].

        `without` says where a sample's own items are: columns of `ids` by number, slots by name.
        """
        if isinstance(without, str) or not isinstance(without, Sequence):
            raise UsageTypeError(f"without must be a list of columns of ids and names of slots, got {without!r}")
        own = _joined([_part(batch, one) for one in without], batch.size) if without else None
        drawn = self.draw(batch.size, epoch=epoch, position=position, worker=worker, without=own)
        return batch._replace(slots={**batch.slots, slot: drawn})

    def over(
        self, batches: Iterable[Batch], *, slot: str = "negatives", without: Sequence[int | str] = ()
    ) -> Iterator[Batch]:
        """Each batch with negatives. A `Shard` knows the worker, the epoch and the place in it; others begin with 0."""
        worker = epoch = done = 0
        if isinstance(batches, Shard):
            worker, epoch, done = batches.worker, batches.epoch, batches.num_done
        for place, batch in enumerate(batches, start=done):
            yield self.add(batch, slot=slot, without=without, epoch=epoch, position=place << 32, worker=worker)

    def _drawn(self, keys: npt.NDArray[np.uint64], steps: npt.NDArray[np.uint64]) -> Ids:
        """Places of items; `steps` number the draws of each row."""
        return self._table.draw(_uniform(keys[:, None], steps))

    def _redraw(self, drawn: Ids, keys: npt.NDArray[np.uint64], without: SlotValues) -> None:
        """Replace those that are the row's own."""
        num_items = len(self.items)
        rows, values = _flat(without, len(drawn))
        places = np.searchsorted(self.items, values)
        is_item = (places < num_items) & (self.items[np.minimum(places, num_items - 1)] == values)
        own = np.unique(rows[is_item] * num_items + places[is_item])
        if not len(own):
            return
        row, column = np.nonzero(_within(own, np.arange(len(drawn))[:, None] * num_items + drawn))
        for attempt in range(1, MOST_TRIES):
            if not len(row):
                return
            steps = (column + attempt * self.num).astype(np.uint64)
            again = self._drawn(keys[row], steps[:, None])[:, 0]
            drawn[row, column] = again
            is_own = _within(own, row * num_items + again)
            row, column = row[is_own], column[is_own]
        for one in np.unique(row).tolist():  # those who have almost everything
            first, last = np.searchsorted(own, [one * num_items, (one + 1) * num_items])
            others = np.setdiff1d(np.arange(num_items), own[first:last] - one * num_items, assume_unique=True)
            if not len(others):
                raise UsageError(f"row {one} of the batch has every item as its own; nothing is left to draw")
            weights = self._table.shares()[others]
            table = AliasTable(weights if weights.sum() > 0 else np.ones(len(others)))
            columns = column[row == one]
            steps = (columns + MOST_TRIES * self.num).astype(np.uint64)
            drawn[one, columns] = others[table.draw(_uniform(keys[one], steps))]


def _uniform(keys: Any, steps: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), 53 bits of each."""
    with np.errstate(over="ignore"):
        bits: npt.NDArray[np.uint64] = _mixed(keys + (steps + np.uint64(1)) * _GOLDEN)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(value: Any) -> Any:
    """The finisher of splitmix64, which spreads what differs in a bit over all of them."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def _ids(items: Any) -> Ids:
    found = items.detach().cpu().numpy() if isinstance(items, torch.Tensor) else np.asarray(items)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and len(found)):
        raise UsageTypeError(f"items must be ids, int64 [n], got {found.dtype} {list(found.shape)}")
    return found.astype(np.int64)


def _sorted(items: Ids, counts: npt.NDArray[np.float64]) -> tuple[Ids, npt.NDArray[np.float64]]:
    if counts.shape != items.shape:
        raise UsageError(f"counts must be one for each of the {len(items)} items, got {list(counts.shape)}")
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise UsageError("counts must be at least 0, finite, and not all 0")
    order = np.argsort(items)
    if (np.diff(items[order]) == 0).any():
        raise UsageError("items with counts must stand there once each")
    return items[order], counts[order]


def _within(own: Ids, codes: Ids) -> npt.NDArray[np.bool_]:
    found = np.minimum(np.searchsorted(own, codes), len(own) - 1)
    return np.equal(own[found], codes)


def _flat(values: SlotValues, num: int) -> tuple[Ids, Ids]:
    """Row and value of each."""
    if isinstance(values, tuple):
        flat, offsets = values[0].numpy(), values[1].numpy()
        if len(offsets) != num + 1:
            raise UsageError(f"without has {len(offsets) - 1} rows where {num} are drawn for")
        return np.repeat(np.arange(num), np.diff(offsets)), flat[offsets[0] : offsets[-1]]
    found = values.numpy()
    if found.ndim != 2 or len(found) != num:
        raise UsageError(f"without must be [{num}, k], got {list(found.shape)}")
    return np.repeat(np.arange(num), found.shape[1]), found.reshape(-1)


def _part(batch: Batch, one: int | str) -> SlotValues:
    if isinstance(one, str):
        if one not in batch.slots:
            raise UsageError(f"the batch has no slot {one!r}; it has {', '.join(batch.slots) or 'none'}")
        return batch.slots[one]
    if not 0 <= one < batch.ids.shape[1]:
        raise UsageError(f"the batch has {batch.ids.shape[1]} columns of ids, and no column {one}")
    return batch.ids[:, one : one + 1]


def _joined(parts: list[SlotValues], num: int) -> SlotValues:
    if len(parts) == 1:
        return parts[0]
    flat = [_flat(part, num) for part in parts]
    rows, values = np.concatenate([rows for rows, _ in flat]), np.concatenate([values for _, values in flat])
    order = np.argsort(rows, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num))])
    return torch.from_numpy(values[order]), torch.from_numpy(offsets)
