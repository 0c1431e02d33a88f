"""The gradients of one push and the keys of a pull, read from a request and checked whole before anything is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.checkpoint import Form
from fleet.errors import UsageError
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.records import RecordPart
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import callers
from fleet.ps.wire.formats import exact_groups
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.strategy.parameter_server import FORMATS

Number = TypeVar("Number", bound=np.generic)
Columns = tuple[
    NDArray[np.int64],
    NDArray[np.float32],
    NDArray[np.uint32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
]


class TableUpdate(NamedTuple):
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
        return self[2:]


class DenseUpdate(NamedTuple):
    """What one push says about one dense group."""

    group: int
    lr: float
    grads: NDArray[np.float32]


class TablePull(NamedTuple):
    """The keys of one table whose rows a request wants."""

    table: int
    keys: NDArray[np.int64]
    reads_zeros: bool
    """Whether a key without a row is zeros."""
    format: int
    """The format of the rows in the answer."""


class AssignedRows(NamedTuple):
    """Rows of a table that are written by value."""

    table: int
    keys: NDArray[np.int64]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class PushedUpdate:
    """One push, checked."""

    worker: int
    step: int
    push: _native.PlanePush | None = None
    """Its gradients, read by native code; None: it has none."""
    sequence: int = 0
    steps: int = 0
    position: bytes = b""
    """Where its worker is after it: see proto/ps.proto."""
    record: RecordPart | None = None
    """What a journal keeps of it."""
    is_pass: bool = False
    """Whether its worker has no batch left: it has no gradients, and does not count in the mean of its step."""
    is_traced: bool = False
    """Whether its worker records a trace."""
    pulled_version: int = 0
    """The version of the parameters that its gradients were computed with."""

    @property
    def groups(self) -> tuple[int, ...]:
        """The dense groups that are pushed."""
        return () if self.push is None else self.push.groups

    @property
    def keys(self) -> Sequence[tuple[int, NDArray[np.int64]]]:
        """The tables that it is about, each with the keys of its gradients."""
        return () if self.push is None else self.push.keys

    @property
    def has_gradients(self) -> bool:
        """Whether it is about any table or dense group."""
        return bool(self.num_rows or self.groups or self.keys)

    @property
    def num_rows(self) -> int:
        """How many rows it has gradients for."""
        return 0 if self.push is None else self.push.num_rows

    @property
    def tables(self) -> list[TableUpdate]:
        """What it says about each table, as arrays."""
        return [] if self.push is None else [TableUpdate(*part) for part in self.push.tables]

    @property
    def dense(self) -> list[DenseUpdate]:
        """What it says about each dense group that is pushed, as arrays."""
        return [] if self.push is None else [DenseUpdate(*part) for part in self.push.dense]


class PushOutcome(NamedTuple):
    """What became of a push."""

    is_new: bool
    staleness: int = 0
    skipped: int = 0


def reader_of(job: JobSpec, server: int) -> _native.PlaneReader:
    """The native reader of the requests to a server of a job."""
    dense = job.dense
    return _native.PlaneReader(
        [(spec.width, spec.unseen == "zeros") for spec in job.tables],
        [(dense.parts(server, group), is_exact) for group, is_exact in enumerate(exact_groups(dense))],
        len(dense.shapes),
        takes_deltas=job.mode == "geo",
        takes_passes=job.mode == "sync",
    )


def read_push(
    reader: _native.PlaneReader, header: ps_pb2.PushRequest.Header, tensors: Tensors, job: JobSpec
) -> _native.PlanePush:
    """The push of a request; UsageError that names the worker, the table and the step if it does not fit the job."""
    found = reader.read_push(header.SerializeToString(), tensors)
    if isinstance(found, _native.PlaneRefusal):
        raise _refused(found, job, f"push of worker {header.caller.worker}, step {header.step}")
    callers.reserve(found.decoded_bytes)
    return found


def read_pull(
    reader: _native.PlaneReader, header: ps_pb2.PullRequest.Header, tensors: Tensors, job: JobSpec
) -> list[TablePull]:
    """The keys whose rows a request wants; UsageError if it does not fit the job."""
    found = reader.read_pull(header.SerializeToString(), tensors)
    if isinstance(found, _native.PlaneRefusal):
        raise _refused(found, job, f"pull of worker {header.caller.worker}")
    return [TablePull(*one) for one in found]


def update_of(
    header: ps_pb2.PushRequest.Header, push: _native.PlanePush, record: RecordPart | None = None
) -> PushedUpdate:
    """A push that was read, with what its header says of it; `record`: what a journal keeps of it."""
    return PushedUpdate(
        header.caller.worker,
        header.step,
        push,
        header.sequence,
        header.steps,
        header.position,
        record,
        header.is_pass,
        header.caller.is_traced,
        header.pulled_version,
    )


def _refused(why: _native.PlaneRefusal, job: JobSpec, who: str) -> UsageError:
    """Why a request was refused, and what fits; csrc/plane/reader.cc has found it."""
    given, wanted, num_groups = why.given, why.wanted, len(job.dense.groups)
    where = f"{who}, table {job.tables[why.place].name!r}" if 0 <= why.place < len(job.tables) else who
    group = f"{who}, dense group {why.place}"
    match why.what:
        case "delta":
            takes = "differences" if job.mode == "geo" else "gradients"
            return UsageError(f"a job in {job.mode} mode takes {takes} only")
        case "pass":
            return UsageError(f"{who}: a push that is a pass belongs to a synchronous step, and has no gradients")
        case "table":
            names = ", ".join(repr(table.name) for table in job.tables) or "none"
            return UsageError(f"{who}: there is no table {given}; the job declared {names}")
        case "tensors":
            return UsageError(f"{where}: {wanted} tensors are needed, {given} are left")
        case "keys":
            return UsageError(f"{where}, keys: {given} bytes do not hold whole values of int64")
        case "gradients":
            size = f"{wanted} x {why.width}"
            return UsageError(f"{where}, gradients: {given} bytes do not hold {size} values of {FORMATS[why.format]}")
        case "counts" | "clicks":
            kind = "uint32" if why.what == "counts" else "float32"
            return UsageError(f"{where}, {why.what}: {given} bytes do not hold {wanted} values of {kind}")
        case "format":
            return UsageError(f"{where}: there is no format {given}; there are 0 to {wanted - 1}")
        case "rate":
            return UsageError(f"{where}: the learning rate must be a number >= 0, got {why.rate}")
        case "groups":
            return UsageError(f"{who}: dense groups with {given}, but the job has {num_groups}, to be named in order")
        case "forms" | "learning rates":
            return UsageError(f"{who}: {given} {why.what} for {wanted} dense groups")
        case "dense tensors":
            return UsageError(f"{who}: {given} dense tensors, but the dense groups that are pushed have {wanted}")
        case "dense":
            return UsageError(f"{group}: {given} bytes do not hold {wanted} values of {FORMATS[why.format]}")
        case "places":
            return UsageError(f"{group}: {given} bytes are not places of int32 that ascend and stay below {wanted}")
        case "rest":
            return UsageError(f"{who}: {given} tensors belong to nothing")
        case "absent":
            return UsageError(f"{who}: parameter {given} is absent; the job has {wanted}")
        case "pulls":
            return UsageError(f"{who}: {given} tensors, too few for rows of {wanted} tables")
        case "tensors of keys" | "flags of reading" | "formats of rows":
            return UsageError(f"{who}: {given} {why.what} for {wanted} tables")
        case "answer":
            return UsageError(f"{who}: its rows take {given >> 20} MiB, an answer {wanted >> 20}; use smaller batches")
        case _:
            return UsageError(f"{who}: a field of its header is of another type than in proto/ps.proto")


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
    """UsageError that names the place if a gradient is a NaN or an Inf."""
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
    for group, _, grads in update.dense:
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
    """Keys from the tensor of a request."""
    return _read(tensor, np.int64, (-1,), f"{where}, keys")


def read_floats(tensor: Tensor, shape: tuple[int, ...], where: str) -> NDArray[np.float32]:
    """Rows or gradients from the tensor of a request."""
    return _read(tensor, np.float32, shape, where)


def read_dense(tensors: Sequence[Tensor], job: JobSpec, server: int, who: str) -> tuple[NDArray[np.float32], ...]:
    """One array for each dense group of this server."""
    num_groups = len(job.dense.groups)
    if len(tensors) != num_groups:
        raise UsageError(f"{who}: {len(tensors)} dense tensors, but the job has {num_groups} dense groups")
    return tuple(
        read_floats(tensor, (job.dense.size(server, group),), f"{who}, dense group {group}")
        for group, tensor in enumerate(tensors)
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
