"""The gradients of one push and the keys of a pull, read from a request and checked whole before anything is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.checkpoint import Form
from fleet.errors import UsageError
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.records import Part
from fleet.ps.wire.formats import check_format, decoded_dense, decoded_rows
from fleet.ps.wire.messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from fleet.ps.proto import ps_pb2
    from fleet.ps.wire.messages import Tensor, Tensors

Number = TypeVar("Number", bound=np.generic)
Columns = tuple[
    NDArray[np.int64],
    NDArray[np.float32],
    NDArray[np.uint32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
]


@dataclass(frozen=True)
class TableUpdate:
    """What one push says about one table."""

    table: int
    lr: float
    keys: NDArray[np.int64]
    grads: NDArray[np.float32]
    counts: NDArray[np.uint32] | None = None
    shows: NDArray[np.float32] | None = None
    clicks: NDArray[np.float32] | None = None

    def columns(self) -> Columns:
        """As `_native.Table.push_all` takes it."""
        return self.keys, self.grads, self.counts, self.shows, self.clicks


class TablePull(NamedTuple):
    """The keys of one table whose rows a request wants."""

    table: int
    keys: NDArray[np.int64]
    only_read: bool
    """Whether the rows are not to be trained: then the table's `unseen` says what a key without a row is."""
    format: int = 0
    """The format of the rows in the answer."""


class AssignedRows(NamedTuple):
    """Rows of a table that are written by value."""

    table: int
    keys: NDArray[np.int64]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class PushedUpdate:
    """The gradients of one push, checked."""

    worker: int
    step: int
    tables: tuple[TableUpdate, ...]
    dense: Mapping[int, NDArray[np.float32]]
    """The gradients of each dense group that is pushed."""
    lrs: Mapping[int, float]
    """The learning rate of each."""
    sequence: int = 0
    steps: int = 0
    position: bytes = b""
    """Where its worker is after it: see proto/ps.proto."""
    record: Part | None = None
    """What a journal keeps of it."""
    is_pass: bool = False
    """Whether its worker has no batch left: it has no gradients, and does not count in the mean of its step."""
    call: _native.PlaneCall | None = None
    """The request, where native code has read it."""
    is_traced: bool = False
    """Whether its worker records a trace."""
    absent: tuple[int, ...] = ()
    """Parameters of its dense groups, as in the job's list of shapes, that had no part in the loss."""

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The dense groups that are pushed."""
        return tuple(self.dense)

    @cached_property
    def has_gradients(self) -> bool:
        """Whether it is about any table or dense group."""
        return bool(self.tables or self.dense)

    @cached_property
    def num_rows(self) -> int:
        """How many rows it has gradients for."""
        return sum(len(part.keys) for part in self.tables)


class CallUpdate(PushedUpdate):
    """A push that native code has read: its parts become arrays only where somebody asks for them."""

    def __init__(self, header: ps_pb2.PushRequest.Header, call: _native.PlaneCall, job: JobSpec, server: int) -> None:
        groups = (tuple(header.dense_groups) or tuple(range(len(job.dense.groups)))) if header.dense_lrs else ()
        self.__dict__.update(
            worker=header.caller.worker,
            step=header.step,
            sequence=header.sequence,
            steps=header.steps,
            position=header.position,
            is_pass=header.is_pass,
            call=call,
            is_traced=header.caller.is_traced,
            groups=groups,
            has_gradients=bool(header.tables or groups),
            num_rows=call.num_rows,
            _read=lambda: read_update(header, pushed_tensors(header, call), job, server),
        )

    @cached_property
    def _arrays(self) -> PushedUpdate:
        read: PushedUpdate = self.__dict__["_read"]()
        return read

    @cached_property
    def tables(self) -> tuple[TableUpdate, ...]:
        """What it says about each table, as arrays."""
        return self._arrays.tables

    @cached_property
    def dense(self) -> Mapping[int, NDArray[np.float32]]:
        """The gradients of each dense group that is pushed."""
        return self._arrays.dense

    @cached_property
    def lrs(self) -> Mapping[int, float]:
        """The learning rate of each."""
        return self._arrays.lrs


def pushed_tensors(header: ps_pb2.PushRequest.Header, call: _native.PlaneCall) -> Tensors:
    """The tensors of a push without those of the pull that rides on it."""
    tensors = call.tensors
    return tensors[: len(tensors) - len(header.pull_tables)]


class Taken(NamedTuple):
    """What became of a push."""

    is_new: bool
    staleness: int
    skipped: int


def read_push(
    header: ps_pb2.PushRequest.Header, tensors: Tensors, job: JobSpec, server: int
) -> tuple[PushedUpdate, list[TablePull]]:
    """The push of a request and the rows that it also wants; UsageError if the job does not take it."""
    if header.is_delta != (job.mode == "geo"):
        raise UsageError(f"a job in {job.mode} mode takes {'differences' if not header.is_delta else 'gradients'} only")
    who = _who(header)
    num_pulls = len(header.pull_tables)
    if num_pulls > len(tensors):
        raise UsageError(f"{who}: {len(tensors)} tensors, too few for rows of {num_pulls} tables")
    num_pushed = len(tensors) - num_pulls
    pulls = _pulls(header.pull_tables, header.pull_only_read, header.pull_formats, tensors[num_pushed:], job, who)
    check_format(header.dense_format, who)
    update = read_update(header, tensors[:num_pushed], job, server)
    if job.nonfinite == "error":
        refuse_nonfinite(update, job)
    return update, pulls


def read_pull(header: ps_pb2.PullRequest.Header, tensors: Tensors, job: JobSpec) -> list[TablePull]:
    """The keys whose rows a request wants, checked: one tensor per table, and an answer that can be sent."""
    who = f"pull of worker {header.caller.worker}"
    check_format(header.dense_format, who)
    return _pulls(header.tables, header.only_read, header.formats, tensors, job, who)


def _pulls(
    tables: Sequence[int], only_read: Sequence[bool], formats: Sequence[int], tensors: Tensors, job: JobSpec, who: str
) -> list[TablePull]:
    if len(tables) != len(tensors):
        raise UsageError(f"{who}: {len(tensors)} tensors of keys for {len(tables)} tables")
    if len(only_read) not in (0, len(tables)):
        raise UsageError(f"{who}: {len(only_read)} flags of reading for {len(tables)} tables")
    if len(formats) not in (0, len(tables)):
        raise UsageError(f"{who}: {len(formats)} formats of rows for {len(tables)} tables")
    widths = [table_spec(job, table, who).width for table in tables]
    keys = [read_keys(tensor, who) for tensor in tensors]
    size = 4 * sum(len(part) * width for part, width in zip(keys, widths, strict=True))
    if size > MAX_MESSAGE_BYTES:
        most = MAX_MESSAGE_BYTES >> 20
        raise UsageError(f"{who}: its rows take {size >> 20} MiB, an answer {most} at most; use smaller batches")
    flags = only_read or [False] * len(tables)
    known = [check_format(number, who) for number in formats] or [0] * len(tables)
    return [TablePull(*one) for one in zip(tables, keys, flags, known, strict=True)]


def _who(header: ps_pb2.PushRequest.Header) -> str:
    return f"push of worker {header.caller.worker}, step {header.step}"


def read_update(header: ps_pb2.PushRequest.Header, tensors: Tensors, job: JobSpec, server: int) -> PushedUpdate:
    """The push of a request; UsageError that names the worker, the table and the step if it does not fit the job."""
    who = _who(header)
    if header.is_pass and (tensors or header.tables or header.dense_lrs or job.mode != "sync"):
        raise UsageError(f"{who}: a push that is a pass belongs to a synchronous step, and has no gradients")
    rest = list(tensors)
    tables = []
    for entry in header.tables:
        spec = table_spec(job, entry.table, who)
        where = f"{who}, table {spec.name!r}"
        num_needed = 2 + entry.has_counts + 2 * entry.has_clicks
        if len(rest) < num_needed:
            raise UsageError(f"{where}: {num_needed} tensors are needed, {len(rest)} are left")
        part, rest = rest[:num_needed], rest[num_needed:]
        keys = read_keys(part[0], where)
        grads = read_rows(part[1], entry.format, (len(keys), spec.width), f"{where}, gradients")
        check_format(entry.row_format, where)
        counts = _read(part[2], np.uint32, (len(keys),), f"{where}, counts") if entry.has_counts else None
        shows, clicks = (
            (read_floats(tensor, (len(keys),), f"{where}, clicks") for tensor in part[-2:])
            if entry.has_clicks
            else (None, None)
        )
        tables.append(TableUpdate(entry.table, _lr(entry.lr, where), keys, grads, counts, shows, clicks))
    dense: dict[int, NDArray[np.float32]] = {}
    if header.dense_lrs:
        groups = list(header.dense_groups) or list(range(len(job.dense.groups)))
        if header.dense:
            rest = list(decoded_dense(header.dense, rest, [job.dense.size(server, group) for group in groups], who))
        dense = dict(zip(groups, read_dense(rest, job, server, who, groups), strict=True))
        if len(header.dense_lrs) != len(dense):
            raise UsageError(f"{who}: {len(header.dense_lrs)} learning rates for {len(dense)} dense groups")
    elif rest:
        raise UsageError(f"{who}: {len(rest)} tensors belong to nothing")
    lrs = {group: _lr(lr, who) for group, lr in zip(dense, header.dense_lrs, strict=True)}
    if header.absent and (max(header.absent) >= len(job.dense.shapes) or not dense):
        raise UsageError(f"{who}: parameter {max(header.absent)} is absent; the job has {len(job.dense.shapes)}")
    return PushedUpdate(
        header.caller.worker,
        header.step,
        tuple(tables),
        dense,
        lrs,
        header.sequence,
        header.steps,
        header.position,
        is_pass=header.is_pass,
        is_traced=header.caller.is_traced,
        absent=tuple(header.absent),
    )


def read_assigned(header: ps_pb2.AssignRequest.Header, tensors: Tensors, job: JobSpec) -> AssignedRows:
    """The rows of a request; UsageError that names the worker and the table if they do not fit the job."""
    who = f"rows of worker {header.caller.worker}"
    spec = table_spec(job, header.table, who)
    where = f"{who}, table {spec.name!r}"
    if len(tensors) != 2:
        raise UsageError(f"{where}: {len(tensors)} tensors instead of keys and rows")
    keys = read_keys(tensors[0], where)
    values = read_floats(tensors[1], (len(keys), spec.width), where)
    if not _native.all_finite(values):
        raise UsageError(f"{where}: they hold a NaN or an Inf; nothing was written")
    return AssignedRows(header.table, keys, values)


def refuse_nonfinite(update: PushedUpdate, job: JobSpec) -> None:
    """UsageError if a gradient is a NaN or an Inf."""
    who = f"worker {update.worker}, step {update.step}"
    for part in update.tables:
        if not _native.all_finite(part.grads):
            bad = part.keys[~np.isfinite(part.grads).all(axis=1)]
            name = job.tables[part.table].name
            raise UsageError(
                f"table {name!r}: the gradients of {who} hold a NaN or an Inf, for example of key {bad[0]}; "
                "nothing was applied. Set strategy.nonfinite_gradients = 'skip' to leave such rows out"
            )
        for values in (part.shows, part.clicks):
            if values is not None and not _native.all_finite(values):
                raise UsageError(
                    f"table {job.tables[part.table].name!r}: shows or clicks of {who} hold a NaN or an Inf"
                )
    for group, grads in update.dense.items():
        if not _native.all_finite(grads):
            raise UsageError(
                f"dense parameters, group {group}: the gradients of {who} hold a NaN or an Inf; nothing was applied. "
                "Set strategy.nonfinite_gradients = 'skip' to leave such steps out"
            )


def table_spec(job: JobSpec, index: int, who: str) -> TableSpec:
    """The table a request names by its index."""
    if index >= len(job.tables):
        names = ", ".join(repr(table.name) for table in job.tables) or "none"
        raise UsageError(f"{who}: there is no table {index}; the job declared {names}")
    return job.tables[index]


def read_keys(tensor: Tensor, where: str) -> NDArray[np.int64]:
    """Keys as they travel."""
    return _read(tensor, np.int64, (-1,), f"{where}, keys")


def read_floats(tensor: Tensor, shape: tuple[int, ...], where: str) -> NDArray[np.float32]:
    """Rows or gradients as they travel."""
    return _read(tensor, np.float32, shape, where)


def read_rows(tensor: Tensor, number: int, shape: tuple[int, int], where: str) -> NDArray[np.float32]:
    """Gradients of rows as they travel, in any format."""
    return decoded_rows(tensor, number, shape, where) if number else read_floats(tensor, shape, where)


def read_dense(
    tensors: Sequence[Tensor], job: JobSpec, server: int, who: str, groups: Sequence[int] | None = None
) -> tuple[NDArray[np.float32], ...]:
    """One array for each of some dense groups of this server, or for all."""
    num_groups = len(job.dense.groups)
    if groups is None:
        groups = range(num_groups)
    if any(group >= num_groups for group in groups) or sorted(set(groups)) != list(groups):
        raise UsageError(f"{who}: dense groups {list(groups)[:9]}, but the job has {num_groups}, to be named in order")
    if len(tensors) != len(groups):
        raise UsageError(f"{who}: {len(tensors)} dense tensors, but the job has {len(groups)} dense groups")
    return tuple(
        read_floats(tensor, (job.dense.size(server, group),), f"{who}, dense group {group}")
        for group, tensor in zip(groups, tensors, strict=True)
    )


def read_kept(tensors: Sequence[Tensor], job: JobSpec, server: int, who: str) -> tuple[NDArray[Any], ...]:
    """The bits of each tensor that this server keeps, in memory of their own."""
    own = job.kept_on(server)
    if len(tensors) != len(own):
        raise UsageError(f"{who}: {len(tensors)} kept tensors, but this server keeps {len(own)}")
    return tuple(
        _read(tensor, Form(spec.dtype, spec.shape).bits.type, spec.shape, f"{who}, tensor {spec.name!r}").copy()
        for spec, tensor in zip(own, tensors, strict=True)
    )


def _read(tensor: Tensor, dtype: type[Number], shape: tuple[int, ...], where: str) -> NDArray[Number]:
    """A view of the bytes where they lie; a copy only if a foreign client did not align them."""
    try:
        raw: NDArray[Any] = tensor if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, np.uint8)
        flat = raw.reshape(-1).view(np.uint8)
        if flat.ctypes.data % np.dtype(dtype).itemsize:
            flat = flat.copy()
        return flat.view(dtype).reshape(shape)
    except ValueError:
        size = tensor.nbytes if isinstance(tensor, np.ndarray) else len(tensor)
        wanted = " x ".join(str(n) for n in shape if n >= 0) or "whole"
        raise UsageError(f"{where}: {size} bytes do not hold {wanted} values of {np.dtype(dtype).name}") from None


def _lr(lr: float, where: str) -> float:
    if not 0 <= lr < float("inf"):
        raise UsageError(f"{where}: the learning rate must be a number >= 0, got {lr}")
    return lr
