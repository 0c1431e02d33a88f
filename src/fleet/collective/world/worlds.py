"""The three groups that can talk: the workers, the servers, and all. One interface, also for a group of one.

Values travel as raw bytes behind a small JSON header, never as pickles. These calls are for set-up, metrics and
bookkeeping; gradients go through the default process group.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import default_pg_timeout

from fleet.collective.world import rendezvous
from fleet.collective.world.arrival import Attendance
from fleet.errors import CommunicationError, UsageError
from fleet.roles.base import Identity

# What torch 2.13 calls it; the older name warns there.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


WorldName = Literal["worker", "server", "all"]


class World(ABC):
    """A group of processes. Every call is made by all of them, in the same order."""

    rank: int
    size: int

    @abstractmethod
    def gather_bytes(self, own: bytes) -> list[bytes]:
        """What every member gave, by rank."""

    @abstractmethod
    def reduce(self, values: torch.Tensor, op: dist.ReduceOp.RedOpType) -> None:
        """Combine `values` over the group, in place."""

    def barrier(self) -> None:
        """Return when every member has come here."""
        self.reduce(torch.zeros(1), dist.ReduceOp.SUM)

    def gather_at(self, topic: str, own: bytes) -> list[bytes]:  # noqa: ARG002 - where members have one life, order will do
        """What every member gave under a name, which is the same in all lives of a member."""
        return self.gather_bytes(own)

    def knows(self, ahead: int) -> bool:  # noqa: ARG002
        """Whether a former life of this member was told what the `ahead`th call from here, from 1, will give."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Leave the group; nothing may be called afterwards."""


class Alone(World):
    """A world of one: everything it gathers is its own."""

    rank, size = 0, 1

    def gather_bytes(self, own: bytes) -> list[bytes]:
        return [own]

    def reduce(self, values: torch.Tensor, op: dist.ReduceOp.RedOpType) -> None:
        pass

    def close(self) -> None:
        pass


class GlooWorld(World):
    """A world over Gloo, or over torch's default group, whose CPU side is Gloo too.

    Waits in the default group are watched and told by `fleet.collective.stall`; those of another need an attendance.
    """

    def __init__(self, group: dist.ProcessGroup, name: str, attendance: Attendance | None = None) -> None:
        self._group = group
        self._name = name
        self._attendance = attendance
        self.rank = group.rank()
        self.size = group.size()

    def gather_bytes(self, own: bytes) -> list[bytes]:
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(own)
        self.reduce(lengths, dist.ReduceOp.SUM)
        longest = int(lengths.max())
        padded = np.zeros(max(longest, 1), dtype=np.uint8)
        padded[: len(own)] = np.frombuffer(own, dtype=np.uint8)
        outputs = [torch.empty(len(padded), dtype=torch.uint8) for _ in range(self.size)]
        self._wait(self._group.allgather([outputs], [torch.from_numpy(padded)]), "all_gather")
        return [output.numpy()[:length].tobytes() for output, length in zip(outputs, lengths.tolist(), strict=True)]

    def reduce(self, values: torch.Tensor, op: dist.ReduceOp.RedOpType) -> None:
        self._reduce(values, op, "all_reduce")

    def barrier(self) -> None:
        self._reduce(torch.zeros(1), dist.ReduceOp.SUM, "barrier")

    def close(self) -> None:
        if self._attendance is not None:
            self._attendance.close()

    def _reduce(self, values: torch.Tensor, op: dist.ReduceOp.RedOpType, call: str) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(op)
        self._wait(self._group.allreduce([values], options), call)

    def _wait(self, work: Any, call: str) -> None:
        try:
            if self._attendance is None:
                work.wait()
            else:
                self._attendance.wait(partial(_is_done, work), f"{call} of the {self._name} world")
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            # Gloo has one type for all; once a wait ran out, it also closes the connections and says so.
            is_late = any(words in first.lower() for words in ("timed out", "timeout"))
            what = "timed out" if is_late else "lost a member"
            raise CommunicationError(
                f"the {self._name} world {what} (this is rank {self.rank} of {self.size}): {first}"
            ) from error


class Worlds:
    """The worlds of one process, each opened when first asked for; every member must ask for it."""

    def __init__(self, identity: Identity, worker_world: Callable[[], World] | None = None) -> None:
        """`worker_world` makes the world of the workers where it is another than Gloo's."""
        self._identity = identity
        self._worker_world = worker_world
        self._open: dict[str, World] = {}
        self._store: dist.Store | None = None

    def __getitem__(self, name: WorldName) -> World:
        if name not in self._open:
            self._open[name] = self._make(name)
        return self._open[name]

    def close(self) -> None:
        """Leave every world and close the store."""
        for world in self._open.values():
            world.close()
        self._open.clear()
        self._store = None

    def _make(self, name: WorldName) -> World:
        who = self._identity
        workers = [f"worker {i}" for i in range(who.num_workers)]
        servers = [f"server {i}" for i in range(who.num_servers)]
        everybody = {"worker": workers, "server": servers, "all": workers + servers}.get(name)
        if everybody is None:
            raise UsageError(f"comm_world must be 'worker', 'server' or 'all', got {name!r}")
        if who.name not in everybody:
            raise UsageError(f"this process is {who.name}, which is not part of comm_world={name!r}")
        if len(everybody) == 1:
            return Alone()
        if name == "worker" and dist.is_initialized():
            group = dist.group.WORLD
            assert group is not None
            return GlooWorld(group, name)
        if name == "worker" and self._worker_world is not None:
            return self._worker_world()
        return self._meet(name, everybody)

    def _meet(self, name: str, everybody: list[str]) -> World:
        first_call = f"the first call of the {name} world (fleet.util)"
        if self._store is None:  # one for all worlds: worker 0 can open its port only once
            self._store = rendezvous.open_store(self._identity, first_call)
        rendezvous.roll_call(self._store, f"{name}/roll-call", self._identity, everybody, first_call)
        group = dist.ProcessGroupGloo(
            dist.PrefixStore(name, self._store),
            everybody.index(self._identity.name),
            len(everybody),
            default_pg_timeout,
        )
        attendance = Attendance(self._store, name, self._identity.name, everybody)
        return GlooWorld(cast(dist.ProcessGroup, group), name, attendance)  # a backend alone answers our three calls


def _is_done(work: Any, limit_s: float) -> bool:
    """Whether a collective has ended by then; its error is raised."""
    try:
        work.wait(timedelta(seconds=max(limit_s, 0.001)))
    except RuntimeError:
        if work.is_completed():
            raise
        return False
    return True


def pack(value: object) -> bytes:
    """A number, text, array, tensor or JSON value as bytes."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg().cpu()
        raw = plain.reshape(-1).view(torch.uint8)  # numpy does not know every type, such as bfloat16
        header = {"tensor": dtype_name(value.dtype), "shape": value.shape}
        return json.dumps(header).encode() + b"\n" + raw.numpy().tobytes()
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise UsageError("an array of Python objects cannot be sent; send numbers or text")
        if array.dtype.names is not None:
            fields = ", ".join(map(repr, array.dtype.names))
            raise UsageError(f"an array with fields ({fields}) cannot be sent; send each field as an array of its own")
        header = {"array": array.dtype.str, "shape": array.shape}
        return json.dumps(header).encode() + b"\n" + np.ascontiguousarray(array).tobytes()
    try:
        return json.dumps({"json": value}).encode() + b"\n"
    except TypeError as error:
        raise UsageError(
            f"a {type(value).__name__} cannot be sent; send numbers, text, lists, arrays or tensors"
        ) from error


def unpack(data: bytes) -> Any:
    """What `pack` packed."""
    head, _, body = data.partition(b"\n")
    header = json.loads(head)
    if "json" in header:
        return header["json"]
    if "tensor" in header:
        tensor = torch.empty(header["shape"], dtype=getattr(torch, header["tensor"]))
        tensor.view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(body, dtype=np.uint8)
        return tensor
    return np.frombuffer(body, dtype=np.dtype(header["array"])).reshape(header["shape"]).copy()


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")
