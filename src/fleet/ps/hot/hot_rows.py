"""Rows that are trained where the model is, as in GPU memory, and not in the table they belong to (ADR 35, 40).

The truth of a row is in one place: here while its key has a slot, else in the table. Every key of a batch that is
trained has one, with the rule's state and the row's marks, and keeps it until its step is over; so what a batch lacks
can be read from the table while the batch before it is computed, and no bit differs from training in the table. Who
loses its slot is written back, and `write_back` writes all, so that the table can be read.

Legend: U keys of a batch, D the width of a row, W floats of state beside it; a record is D + W floats and three words.
"""

import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import _native
from fleet.ps.hot.slot_sets import FULL, TAKEN, SlotAssignment, SlotSets, kinds_of
from fleet.ps.job.rule_table import TensorRule
from fleet.ps.job.spec import TableSpec
from fleet.ps.job.staging import download, host_buffer, upload, wait_for
from fleet.ps.worker.asking.side_thread import used_here
from fleet.ps.worker.parts import meters

log = logging.getLogger(__name__)

CHUNK = 1 << 18
"""How many records are copied at a time when all are."""


class SlotPlacement:
    """The slots of a lookup's keys, once they have some; no key loses its slot while this lives."""

    def __init__(self, call: int, oldest: int) -> None:
        """`call` numbers placements; none since `oldest` may lose a slot to it."""
        self.call, self.oldest = call, oldest
        self._slots: torch.Tensor | None = None

    @property
    def slots(self) -> torch.Tensor:
        """The slot of each key."""
        assert self._slots is not None
        return self._slots

    @slots.setter
    def slots(self, slots: torch.Tensor) -> None:
        self._slots = slots


class SlotGradients(NamedTuple):
    """The gradients [U, D] of one lookup."""

    placement: SlotPlacement
    grads: torch.Tensor


class HotRows:
    """The hot rows of one table. `place`, `write_back` and `reload` are for the side thread."""

    def __init__(
        self, spec: TableSpec, table: _native.Table, num_rows: int, device: torch.device, writer: ThreadPoolExecutor
    ) -> None:
        """`writer`: one thread that writes back what has lost its slot, while the side thread goes on."""
        self._spec, self._table, self._device = spec, table, device
        self._writer = writer
        self._writing: Future[None] | None = None
        self._rule = TensorRule(spec.rule.name, dict(spec.rule.args))
        self._sets = SlotSets(num_rows, device)
        self._records = self._room(self._sets.num_slots)
        self._lock = threading.Lock()  # around whatever takes `_records`, which grows in the side thread
        self._num_calls = 0
        self._live: dict[int, None] = {}  # the calls of placements that are alive
        self._is_changed = False

    @property
    def nbytes(self) -> int:
        """The bytes of device memory in use, with what finds the rows."""
        return self._records.nbytes + self._sets.nbytes

    def expect(self) -> SlotPlacement:
        """A placement for `place` to fill.

        Made before that is called: what is alive now keeps its slots, for steps under way may still train it.
        """
        self._num_calls += 1
        placement = SlotPlacement(self._num_calls, min(list(self._live), default=self._num_calls))
        self._live[self._num_calls] = None
        weakref.finalize(placement, self._live.pop, self._num_calls, None)
        return placement

    def place(self, keys: torch.Tensor, placement: SlotPlacement) -> None:
        """Give distinct keys, which may lie anywhere, slots with their rows in them."""
        with meters.measured("place"):
            keys = upload(keys, self._device)
            plan, (new_keys, gone_keys, kinds) = self._planned(keys, placement)
            is_gone = kinds == TAKEN
            meters.count("cache.hits", len(keys) - len(new_keys))
            meters.count("cache.misses", len(new_keys))
            meters.count("cache.evicted", num_gone := int(is_gone.sum()))
            placement.slots = self._sets.take(plan, placement.call)
            self._settle()  # a new key may have lost its slot in the call before
            if num_gone:
                gone = download(self._records.index_select(0, plan.gone_slots))
                self._begin_write(gone_keys, gone, is_gone)
            if len(new_keys):
                records = self._host_room(len(new_keys))
                with meters.measured("cache read"):
                    self._table.read(new_keys, records)
                self._records.index_copy_(0, plan.gone_slots, upload(records, self._device))

    def _planned(self, keys: torch.Tensor, placement: SlotPlacement) -> tuple[SlotAssignment, NDArray[np.int64]]:
        """Where keys go; and in host memory [3, M]: the new keys, the keys that they drive out, kinds of ways."""
        while True:
            plan = self._sets.plan(keys, placement.call, placement.oldest)
            copied = download(plan.facts)
            wait_for(self._device)
            found: NDArray[np.int64] = copied.numpy()
            found[2] = kinds_of(found[2])
            if not (found[2] == FULL).any():
                return plan, found
            self._sets.grow()
            self._grow(self._sets.num_slots)

    def _begin_write(self, keys: NDArray[np.int64], records: torch.Tensor, chosen: NDArray[np.bool_]) -> None:
        """Have the writer's thread write the chosen of some records, on their way to host memory, into the table."""
        copied = None if records.device == self._device else torch.cuda.current_stream(self._device).record_event()

        def write() -> None:
            if copied is not None:
                copied.synchronize()
            with meters.measured("cache write"):
                if chosen.all():
                    self._table.write(keys, records)
                else:
                    self._table.write(keys[chosen], records.numpy()[chosen])

        self._writing = self._writer.submit(write)

    def _settle(self) -> None:
        """Wait until the table has what was to be written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def rows(self, placement: SlotPlacement, num_zeros: int) -> torch.Tensor:
        """The values of the rows now, [U, D], and so many rows of zeros after them."""
        with self._lock:
            found = self._floats(self._records).index_select(0, used_here(placement.slots))
        return torch.cat([found, found.new_zeros(num_zeros, found.shape[1])]) if num_zeros else found

    def apply(self, parts: Sequence[SlotGradients], lr: float, now: int, *, skips: bool) -> torch.Tensor | None:
        """One step of the rule; `now` is its time. With `skips`, how many rows were left alone for a NaN or an Inf."""
        slots, grads, times = _summed(parts)
        with self._lock:
            records = self._records
            own = records.index_select(0, slots)
            before = own.clone() if skips else None
            values, width = self._floats(own), self._spec.width
            self._rule.apply_to_rows(values, own[:, width:-3].view(torch.float32), grads, lr)
            if self._spec.bounds is not None:
                values.clamp_(*self._spec.bounds)
            _mark(own[:, -3:], times, now)
            skipped = None
            if before is not None:
                is_kept = grads.isfinite().all(dim=1)
                own = torch.where(is_kept.unsqueeze(1), own, before)
                skipped = (~is_kept).sum()
            records.index_copy_(0, slots, own)
            self._is_changed = True
        return skipped

    def write_back(self) -> None:
        """Write every row into the table; they stay here as well."""
        self._settle()
        if not self._is_changed:
            return
        self._is_changed = False
        for keys, slots in self._chunks():
            records = download(self._records.index_select(0, slots))
            wait_for(self._device)
            self._table.write(keys, records)

    def reload(self) -> None:
        """Read every row from the table again, which was given another state."""
        self._settle()
        for keys, slots in self._chunks():
            records = self._host_room(len(keys))
            self._table.read(keys, records)
            self._records.index_copy_(0, slots, upload(records, self._device))
        self._is_changed = False

    def _chunks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """All keys, in host memory, and their slots, some at a time."""
        there, slots = self._sets.all()
        keys = download(there)
        wait_for(self._device)
        yield from zip(keys.split(CHUNK), slots.split(CHUNK), strict=True)

    def _floats(self, records: torch.Tensor) -> torch.Tensor:
        return records[:, : self._spec.width].view(torch.float32)

    def _room(self, num_slots: int) -> torch.Tensor:
        return torch.zeros((num_slots, self._table.record_words), dtype=torch.int32, device=self._device)

    def _host_room(self, num_records: int) -> torch.Tensor:
        return host_buffer((num_records, self._table.record_words), self._device, torch.int32)

    def _grow(self, num_slots: int) -> None:
        """Make room for what batches need at once: more than `cache_rows`, or more in one set of keys."""
        with self._lock:  # nobody gives the GPU work on the old records meanwhile, and what it has is done
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            records = self._room(num_slots)
            records[: len(self._records)] = self._records
            log.info("the cache of table %r grows to %d rows: batches need them", self._spec.name, len(records))
            self._records = records
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)


def _summed(parts: Sequence[SlotGradients]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | int]:
    """The slots, their gradients, added in the order of the parts, and in how many parts each slot is."""
    if len(parts) == 1:
        return parts[0].placement.slots, parts[0].grads, 1
    every = torch.cat([part.placement.slots for part in parts])
    slots, rank = torch.unique(every, return_inverse=True)
    grads = parts[0].grads.new_zeros(len(slots), parts[0].grads.shape[1])
    times = torch.zeros(len(slots), dtype=torch.int32, device=slots.device)
    for part, own in zip(parts, rank.split([len(part.grads) for part in parts]), strict=True):
        grads[own] = grads[own] + part.grads  # no slot comes twice in a part: always the same bits
        times[own] = times[own] + 1
    return slots, grads, times


def _mark(marks: torch.Tensor, times: torch.Tensor | int, now: int) -> None:
    """Mark rows that were pushed: how often they were seen, without wrapping around, the step, that they exist."""
    seen = marks[:, 0]  # as unsigned 32 bits
    seen += seen.ne(-1) * times if isinstance(times, torch.Tensor) else seen.ne(-1)
    marks[:, 1].clamp_(min=min(now, 2**31 - 1))
    marks[:, 2] = 1
