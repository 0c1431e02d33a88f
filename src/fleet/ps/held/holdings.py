"""What a server holds: its part of every table and of the dense parameters, and tensors that it only keeps."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import CommunicationError, UsageError
from fleet.ps.held.applicable import check_applicable, check_optimizers, check_room, raise_if_full
from fleet.ps.held.deleted_keys import DeletedKeyFiles
from fleet.ps.held.dense import DenseGroup, HostGroup, dense_group, host_dense
from fleet.ps.held.log_lines import job_line
from fleet.ps.held.requests import AssignedRows, PushedUpdate, reader_of
from fleet.ps.held.sealed import SealedTable
from fleet.ps.held.table_dir import TableDir
from fleet.ps.job.native_threads import use_step_threads
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.budget import refuse_too_large

_log = logging.getLogger(__name__)

_ALL_SHARDS = (1 << _native.Table.num_shards) - 1

Skip = Callable[[int], int]
"""Which shards of a table, by its index, to leave alone, as bits: they have the update already."""


def none(_: int) -> int:
    """Leave no shard alone."""
    return 0


def make_table(spec: TableSpec, rule: str | None = None, folder: Path | None = None) -> _native.Table:
    """The native table of a spec; `rule`, if given, takes the place of the spec's and has no arguments.

    Rows beyond the spec's memory lie in `folder`; without one all are in memory.
    """
    try:
        return _native.Table(
            spec.name,
            spec.width,
            rule or spec.rule.name,
            {} if rule else dict(spec.rule.args),
            spec.initializer.name,
            dict(spec.initializer.args),
            spec.entry.name,
            dict(spec.entry.args),
            spec.dtype,
            spec.bounds,
            spec.max_bytes,
            spec.seed,
            spec.max_norm,
            spec.norm_type,
            0 if folder is None else spec.memory,
            "" if folder is None else str(folder),
        )
    except ValueError as error:
        text = str(error)
        raise UsageError(text if text.startswith("table ") else f"table {spec.name!r}: {text}") from None
    except OSError as error:
        raise_if_full(f"table {spec.name!r}", error)
        raise UsageError(f"table {spec.name!r}: {error.strerror}") from None


class Holdings:
    """Tables and dense groups of one server. Safe to use from many threads."""

    def __init__(self, job: JobSpec, server: int, device: str = "cpu") -> None:
        rule = "sum" if job.mode == "geo" else None  # servers of geo add differences; rules run in the workers
        self.job = job
        self.server = server
        self._table_dir = TableDir(server) if any(spec.memory for spec in job.tables) else None
        self.tables = tuple(
            make_table(spec, rule, self._table_dir.of(index) if self._table_dir and spec.memory else None)
            for index, spec in enumerate(job.tables)
        )
        rules = [
            (rule or group.name, {} if rule else dict(group.args), [size for _, size in job.dense.parts(server, index)])
            for index, group in enumerate(job.dense.groups)
        ]
        self.dense = host_dense(rules) if device == "cpu" else None
        """The dense groups, if they are in host memory."""
        self.groups: tuple[DenseGroup, ...] = _groups(self.dense, rules, device)
        self.reader = reader_of(job, server)
        """Reads every pull and push, whatever way it comes."""
        self.native = _native.PlaneHoldings(list(self.tables), self.reader, self.dense, job.nonfinite == "skip")
        """Tables and dense groups as native code sees them: applies what was read."""
        self.kept: Sequence[NDArray[Any]] = ()
        """The bits of the tensors that this server keeps."""
        self.is_started = not (self.groups or job.kept or job.first_rows)
        self.skipped = 0
        self.rows_memory: Callable[[int, int], NDArray[np.float32]] | None = None
        """Gives memory for so many rows of some width, where callers want their rows in memory of a certain kind."""
        self.dense_changes = [0] * len(self.groups)
        """How often each dense group may have changed."""
        self._dense_lock = threading.Lock()
        _log.info("%s", job_line(job, server))

    def start(self, values: Sequence[NDArray[np.float32]], kept: Sequence[NDArray[Any]] = ()) -> None:
        """Give the dense parameters and the kept tensors their first values."""
        with self._dense_lock:
            for group, array in zip(self.groups, values, strict=True):
                group.start(array)
            self.kept = kept
            self.is_started = True
        self._note_dense(range(len(self.groups)))

    def _note_dense(self, groups: Iterable[int]) -> None:
        for group in groups:
            self.dense_changes[group] += 1

    def keep(self, kept: Sequence[NDArray[Any]]) -> None:
        """Replace the kept tensors."""
        with self._dense_lock:
            self.kept = kept

    def pull(self, table: int, keys: NDArray[np.int64], zeros: bool = False) -> NDArray[np.float32]:
        """Rows of some keys; those that have none are zeros, or else what they would be in training."""
        try:
            if self.rows_memory is None:
                return self.tables[table].pull(keys, zeros=zeros)
            rows = self.rows_memory(len(keys), self.job.tables[table].width)
            self.tables[table].pull_to(keys, rows, zeros=zeros)
            return rows
        except OSError as error:  # from a table with rows on a disk
            raise CommunicationError(
                f"server {self.server} cannot read rows of table {self.job.tables[table].name!r}: {error.strerror}"
            ) from None

    def limited_rows(self) -> list[int]:
        """How many rows are here of each table that has a ceiling for all servers together."""
        return [len(table) for spec, table in zip(self.job.tables, self.tables, strict=True) if spec.max_rows]

    def read_dense(self) -> list[NDArray[np.float32]]:
        """The dense parameters, all of one moment; read only."""
        if self.dense is not None:
            return self.dense.read()
        with self._dense_lock:
            return [group.read() for group in self.groups]

    def snapshot(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """A copy of values and state of every dense group, all of one moment."""
        if self.dense is not None:
            return self.dense.snapshot()
        with self._dense_lock:
            return [(group.read(), group.state()) for group in self.groups]

    def restore(
        self, buffers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]], kept: Sequence[NDArray[Any]]
    ) -> None:
        """Go back to a snapshot and kept tensors."""
        with self._dense_lock:
            for group, (values, state) in zip(self.groups, buffers, strict=True):
                group.restore(values, state)
            self.kept = kept
            self.is_started = True
        self._note_dense(range(len(self.groups)))

    def files_of_rows(self) -> list[Path]:
        """The sealed files that tables use at this moment; they come and go."""
        return [] if self._table_dir is None else sorted(self._table_dir.path.glob("table-*/*.run"))

    def sealed(self, table: int) -> SealedTable:
        """A table with rows on a disk as it is now; training may go on."""
        assert self._table_dir is not None
        spec, folder = self.job.tables[table], self._table_dir.more()
        return SealedTable(self.tables[table], folder, lambda scratch: make_table(spec, None, scratch))

    def check_shrink(self, asked: ps_pb2.ShrinkRequest.Header, now: int) -> None:
        """UsageError if rows cannot be deleted as asked, NoRoomError if not now; prepares the lists that are wanted."""
        chosen, condition = self._to_shrink(asked, now)
        try:
            for _, table in chosen:
                table.shrink(**condition, skip_shards=_ALL_SHARDS)
                if table.has_disk:
                    check_room(table)
            if asked.keys_to:
                self._listing(asked).prepare({table.name: table.doomed(**condition) for _, table in chosen})
        except ValueError as error:
            raise UsageError(str(error)) from None

    def shrink(self, asked: ps_pb2.ShrinkRequest.Header, now: int, skip: Skip = none) -> tuple[int, int]:
        """Delete rows as asked, of one table or of all; how many, and how many stay. `now` is the last step."""
        chosen, condition = self._to_shrink(asked, now)
        deleted = sum(table.shrink(**condition, skip_shards=skip(index)) for index, table in chosen)
        if asked.keys_to:
            self._listing(asked).finish()
        return deleted, sum(len(table) for _, table in chosen)

    def check_forget(self, asked: ps_pb2.ForgetRequest.Header) -> None:
        """UsageError for an unknown table, NoRoomError where files of rows could not be written anew."""
        if len(asked.keys) % 8:
            raise UsageError(f"the keys to forget are {len(asked.keys)} bytes; send 8 for each key")
        for name in asked.tables:
            if (table := next((one for one in self.tables if one.name == name), None)) is None:
                known = ", ".join(repr(one.name) for one in self.tables) or "none"
                raise UsageError(f"there is no table {name!r}; the job declared {known}")
            if table.has_disk:
                check_room(table)

    def forget(self, asked: ps_pb2.ForgetRequest.Header, skip: Skip = none) -> tuple[int, int]:
        """Delete the rows of some keys and what waits for one; how many of each."""
        keys = np.frombuffer(asked.keys, np.int64)
        chosen = [(index, table) for index, table in enumerate(self.tables) if table.name in asked.tables]
        counts = [table.erase(keys, skip_shards=skip(index)) for index, table in chosen]
        return sum(rows for rows, _ in counts), sum(waiting for _, waiting in counts)

    def _to_shrink(
        self, asked: ps_pb2.ShrinkRequest.Header, now: int
    ) -> tuple[list[tuple[int, _native.Table]], dict[str, Any]]:
        """The tables that a request means, with their indexes, and which of their rows."""
        names = [spec.name for spec in self.job.tables]
        if asked.table and asked.table not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise UsageError(f"there is no table {asked.table!r}; the job declared {known}")
        chosen = [(index, one) for index, one in enumerate(self.tables) if asked.table in ("", one.name)]
        return chosen, {
            "now": now & 0xFFFFFFFF,
            "unseen_steps": min(asked.unseen_steps, 0xFFFFFFFF),
            "score_below": asked.score_below if asked.use_score else None,
            "decay": asked.decay,
        }

    def _listing(self, asked: ps_pb2.ShrinkRequest.Header) -> DeletedKeyFiles:
        who = asked.caller
        return DeletedKeyFiles(asked.keys_to, self.server, f"{who.worker}-{who.incarnation}-{asked.sequence}")

    def assign(self, rows: AssignedRows, time: int, skip: Skip = none) -> int:
        """Write rows by value; how many others were evicted for them."""
        return self.tables[rows.table].assign(
            rows.keys, rows.values, step=time & 0xFFFFFFFF, skip_shards=skip(rows.table)
        )

    def check(self, updates: Sequence[PushedUpdate]) -> None:
        """UsageError or NotReadyError if the updates of one step cannot be applied, in any part; changes nothing."""
        check_optimizers(updates)
        is_started = self.is_started or not any(update.groups for update in updates)
        pushes = _pushes(updates)
        if not (is_started and self.native.is_safe(pushes)):
            means = partial(self.native.means, pushes, len(updates), 1.0)
            check_applicable(updates, self.job, self.tables, means, is_started=is_started)

    def check_room(self) -> None:
        """NoRoomError if a push of rows would find no room on the disk."""
        for table in self.tables:
            if table.has_disk:
                check_room(table)

    def is_finite(self, update: PushedUpdate) -> bool:
        """Whether a push may be taken into a step, as far as a first look tells; False: look closer."""
        return self.job.nonfinite == "skip" or self.native.is_safe(_pushes([update]))

    def apply_mean(self, updates: Sequence[PushedUpdate], time: int, skip: Skip = none, factor: float = 1.0) -> int:
        """Add the gradients of one step, which was checked, in the given order, and apply their mean once.

        `time` is by which rows grow old. The mean is multiplied by `factor`, but not that of running statistics, which
        are no gradients. Returns how many rows and groups were skipped for a NaN or an Inf.
        """
        pushes = _pushes(updates)
        skips = [] if skip is none else [skip(index) for index in range(len(self.tables))]
        skipped = self.native.apply(pushes, time & 0xFFFFFFFF, len(updates), factor, skips)
        if self.dense is None:
            skipped += self._apply_elsewhere(pushes, len(updates), factor)
        self._note_dense(group for update in updates for group in update.groups)
        if skipped and not self.skipped:
            _log.warning("%d rows or dense groups skip a NaN or Inf; fleet.server_stats() counts what follows", skipped)
        self.skipped += skipped
        return skipped

    def _apply_elsewhere(self, pushes: Sequence[_native.PlanePush], num_updates: int, factor: float) -> int:
        """The same for dense groups that are not in host memory."""
        skipped = 0
        with self._dense_lock:
            for group, lr, mean, absent in self.native.means(pushes, num_updates, factor):
                if self.job.nonfinite == "skip" and not _native.all_finite(mean):
                    skipped += 1
                    continue
                self.groups[group].apply(mean, lr, absent)
        return skipped


def _groups(
    dense: _native.Dense | None, rules: Sequence[tuple[str, dict[str, float], Sequence[int]]], device: str
) -> tuple[DenseGroup, ...]:
    if dense is not None:
        return tuple(HostGroup(dense, index, sum(parts)) for index, (_, _, parts) in enumerate(rules))
    return tuple(dense_group(rule, args, parts, device) for rule, args, parts in rules)


def _pushes(updates: Sequence[PushedUpdate]) -> list[_native.PlanePush]:
    return [update.push for update in updates if update.push is not None]


def make_holdings(job: JobSpec, server: int, device: str) -> Holdings:
    """What a server holds of a job; UsageError if that is too much for it."""
    try:
        if job.mode == "sync":
            use_step_threads()
        if device == "cpu":
            refuse_too_large(job, server)
        return Holdings(job, server, device)
    except UsageError:
        raise
    except (MemoryError, ValueError) as error:  # from numpy, for sizes beyond all bounds
        raise UsageError(f"server {server} cannot hold what the job declares: {error}") from None
