"""`InMemoryDataset`: records are read once, kept by column, shuffled here or between workers, and handed out often."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fleet.api import fleet as shared
from fleet.checks import count_of, flag_of
from fleet.data.columns.records import BySlot, Index, Records
from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.datasets.exchange import ShuffleFleet, exchange
from fleet_programs.datasets.line_ids import merge_by_id
from fleet_programs.datasets.loading import Preload, load
from fleet_programs.datasets.memory_settings import MemorySettings
from fleet_programs.datasets.multislot import Format

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


class InMemoryDataset(MemorySettings):
    """`load_into_memory()`, then loop over it as often as wanted; a shuffle changes the order of the next loops.

    Records are in the order of the files, whatever the number of threads. Shuffles give the same order in every run:
    each takes `seed`, or the number of shuffles made so far.
    """

    _feed = "MultiSlotInMemoryDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self._num_shuffles = 0
        self._preload: Preload | None = None
        self._records: Records | None = None
        self._order: Index | None = None
        self._instead: Mapping[str, Index] = {}
        self._is_global = False

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Read all files, in place of what was there; with `is_shuffle`, shuffle them."""
        flag_of("is_shuffle", is_shuffle)
        self._refuse_while_preloading()
        self._put(load(*self._to_load(), self._num_threads, show=True))
        if is_shuffle:
            self.local_shuffle()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begin to read all files in the background, with so many threads; what was there stays until they are in."""
        self._refuse_while_preloading()
        num_threads = self._num_threads if thread_num is None else count_of("thread_num", thread_num)
        self._preload = Preload(*self._to_load(), num_threads)

    def wait_preload_done(self) -> None:
        """Take over what `preload_into_memory` reads, once it has."""
        if self._preload is None:
            raise NotReadyError("nothing is being preloaded; call preload_into_memory() first")
        preload, self._preload = self._preload, None
        self._put(preload.wait())

    def release_memory(self) -> None:
        """Forget the records."""
        self._refuse_while_preloading()
        self._put(None)

    def get_memory_data_size(self, fleet: ShuffleFleet | None = None) -> int:
        """How many records this worker has or, given `fleet`, all have together (then all must ask)."""
        num = self._loaded().num
        return num if fleet is None else int(fleet.util.all_reduce(num))

    def get_shuffle_data_size(self, fleet: ShuffleFleet | None = None) -> int:
        """The same, of records that went through `global_shuffle`; 0 before."""
        num = self._loaded().num if self._is_global else 0
        return num if fleet is None else int(fleet.util.all_reduce(num))

    def local_shuffle(self, *, seed: int | None = None) -> None:
        """Put this worker's records into another order."""
        self._order = self._rng(seed).permutation(self._loaded().num)

    def global_shuffle(
        self, fleet: ShuffleFleet | None = None, thread_num: int = 12, *, seed: int | None = None
    ) -> None:
        """Let every record go to a worker at random, and put them into another order; every worker calls it.

        Without `fleet` the job of `fleet.init()` is meant, if there is one. At most `thread_num` threads pack columns.
        No record is lost and none doubled. With `set_merge_by_lineid`, lines of one id meet on a worker and become one
        record.
        """
        num_threads = count_of("thread_num", thread_num)
        records, job = self._loaded(), _joined(fleet)
        rng = self._rng(seed, 0 if job is None else job.worker_index())
        if job is not None and job.worker_num() > 1:
            num = job.worker_num()
            if self._merge_size is not None and records.ids is not None:
                to = (records.ids.view(np.uint64) % np.uint64(num)).astype(np.int64)
            else:
                to = rng.integers(num, size=records.num)
            size, pause_s = self._send_size, self._send_pause_s
            records = exchange(records, to, job, round_size=size, pause_s=pause_s, num_threads=num_threads)
        if self._merge_size is not None:
            records = _merged(records, self._merge_size)
        self._put(records)
        self._order, self._is_global = rng.permutation(records.num), True

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Give each record the values of another in these slots, to see how much a model needs them.

        They are drawn from `record_candidate_size` records of `set_fea_eval`. Other slots, also those of an earlier
        call, have their own values; no slots undo it, and so does anything that brings in other records.
        """
        if not self._is_fea_eval:
            raise UsageError(
                "slots_shuffle() is for evaluating features; call set_fea_eval(record_candidate_size) first"
            )
        if isinstance(slots, str) or not isinstance(slots, Sequence | set | frozenset):
            raise UsageTypeError(f"slots must be a list of names, got {slots!r}")
        records = self._loaded()
        known = [slot.name for slot in records.slots]
        if unknown := [name for name in slots if name not in known]:
            raise UsageError(f"there is no slot {unknown[0]!r} to shuffle; use_var has {', '.join(known)}")
        rng = self._rng(None)
        candidates = rng.permutation(records.num)[: self._num_candidates]
        self._instead = {name: rng.choice(candidates, records.num) for name in known if name in slots and records.num}

    def _part(self, worker: int, num_workers: int) -> Iterator[BySlot]:
        starts = range(worker * self._batch_size, self._loaded().num, num_workers * self._batch_size)
        return _cut(self._loaded(), self._order, self._instead, starts, self._batch_size)

    def _put(self, records: Records | None) -> None:
        self._records = records
        self._order, self._instead, self._is_global = None, {}, False

    def _loaded(self) -> Records:
        if self._records is None:
            also = "wait_preload_done()" if self._preload is not None else "load_into_memory()"
            raise NotReadyError(f"there are no records in memory; call {also} first")
        return self._records

    def _to_load(self) -> tuple[list[str], Format]:
        return self._paths(), self._ready_format()

    def _refuse_while_preloading(self) -> None:
        if self._preload is not None:
            raise NotReadyError("records are being preloaded; call wait_preload_done() first")

    def _rng(self, seed: int | None, worker: int = 0) -> np.random.Generator:
        self._num_shuffles += 1
        return np.random.default_rng(
            [self._num_shuffles, 0, worker] if seed is None else [count_of("seed", seed, least=0), 1, worker]
        )


def _cut(
    records: Records, order: Index | None, instead: Mapping[str, Index], starts: range, batch_size: int
) -> Iterator[BySlot]:
    """Batches that begin at `starts` of an order; whoever gets one may change it, so none is a view of the records."""
    for first in starts:
        last = min(first + batch_size, records.num)
        index = np.arange(first, last) if order is None else order[first:last]
        yield records.take(index, instead).batch()


def _merged(records: Records, merge_size: int) -> Records:
    if records.ids is None:
        raise NotReadyError("records have no ids to merge by; call set_merge_by_lineid() before load_into_memory()")
    merged, num_lost = merge_by_id(records, merge_size)
    if num_lost:
        _log.warning("left out %d of %d lines: an id needs %d lines to be merged", num_lost, records.num, merge_size)
    return merged


def _joined(fleet: ShuffleFleet | None) -> ShuffleFleet | None:
    """The job that is meant, or None outside of any."""
    if fleet is not None:
        return fleet
    try:
        shared.worker_num()
    except NotReadyError:
        return None
    return shared
