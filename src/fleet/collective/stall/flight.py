"""What this process has asked of torch's collectives, by torch's own recorder, and how long each group stands still.

torch records each collective when it is enqueued and marks it when it is done: one recorder for NCCL, one for all other
backends. Two questions are asked here: the cheap one, how far each group is (`statuses`, a few microseconds), and the
full one, which operations they were (`operations`, some milliseconds), for the moment when something is wrong.

Clock readings are not enough: after a machine was suspended, or a job stopped and continued, every operation in flight
looks old. So a group's wait grows by the time between two looks, and by no more than a look should take.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d

GroupKey = tuple[str, str]
"""A recorder and its number of a process group; not the same in another process."""


# The recorders of this build of torch, by the name of what dumps them.
_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
# Its names of types where they are not the ones that users know.
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
}


@dataclass(frozen=True)
class Status:
    """How far a process group is, in operations of this process; the numbers are torch's and mean nothing elsewhere."""

    enqueued: int
    completed: int

    @property
    def is_pending(self) -> bool:
        """Whether something was enqueued that is not done."""
        return self.enqueued > self.completed


@dataclass(frozen=True)
class Operation:
    """One collective as this process enqueued it, from thread `thread`.

    `number` counts the group's collectives, on every member alike.
    """

    key: GroupKey
    backend: str
    group: str
    number: int
    name: str
    sizes: str
    is_done: bool
    thread: int

    @property
    def title(self) -> str:
        """`all_reduce #418 (1048576 float32)`."""
        return f"{self.name} #{self.number}" + (f" ({self.sizes})" if self.sizes else "")


def statuses() -> dict[GroupKey, Status]:
    """How far every group of this process is."""
    return {
        (name, group): Status(int(status["last_enqueued_collective"]), int(status["last_completed_collective"]))
        for name in _DUMPS
        for group, status in _dump(name, full=False).get("pg_status", {}).items()
    }


def operations() -> list[Operation]:
    """The latest collectives of this process, oldest first."""
    return [
        _operation(name, entry)
        for name in _DUMPS
        for entry in _dump(name, full=True).get("entries", ())
        if not entry.get("is_p2p", False)
    ]


def is_forgotten(key: GroupKey) -> bool:
    """Whether the recorder, which keeps the latest operations of all groups, has none of this one any more."""
    recorder, group = key
    return all(str(entry["pg_id"]) != group for entry in _dump(recorder, full=True).get("entries", ()))


def first_pending(found: Iterable[Operation], key: GroupKey) -> Operation | None:
    """The operation of this group that waits, if one does.

    A group's operations end in order, so one before another that is done is no wait, whatever its mark says: NCCL
    records the members of a coalesced call, and marks only the call.
    """
    waiting: Operation | None = None
    for operation in found:
        if operation.key == key:
            waiting = None if operation.is_done else waiting or operation
    return waiting


def members(group: str) -> list[int]:
    """The workers of a group by its name; empty if there is no such group (any more)."""
    world: Any = distributed_c10d._world
    named = {name: process_group for process_group, name in world.pg_names.items()}
    return sorted(world.pg_group_ranks[named[group]]) if group in named else []


def group_title(group: str) -> str:
    """`the default group`, or `group 3`."""
    default = dist.group.WORLD
    return "the default group" if default is not None and default.group_name == group else f"group {group}"


def _dump(name: str, *, full: bool) -> dict[str, Any]:
    dump: Callable[[bool, bool], bytes] | None = getattr(_distributed_c10d, name, None)
    found: dict[str, Any] = {} if dump is None else json.loads(dump(full, False))
    return found


def _operation(recorder: str, entry: dict[str, Any]) -> Operation:
    backend, _, name = str(entry["profiling_name"]).rpartition(":")
    thread = str(entry.get("thread_id", ""))
    return Operation(
        key=(recorder, str(entry["pg_id"])),
        backend=backend,
        group=str(entry["process_group"][0]),
        number=int(entry["collective_seq_id"]),
        name=name,
        sizes=_sizes(entry.get("input_sizes", ()), entry.get("input_dtypes", ())),
        is_done=bool(entry["retired"]) or entry.get("state") == "completed",
        thread=int(thread) if thread.isdigit() else 0,
    )


def _sizes(shapes: Iterable[list[int]], dtypes: Iterable[str]) -> str:
    """`1048576 float32`, `4x3 int64, 7 float32`; long lists are cut."""
    kinds = list(dtypes)
    texts = [
        " ".join(part for part in ("x".join(map(str, shape)), _DTYPES.get(kind, kind)) if part)
        for shape, kind in zip(shapes, kinds, strict=False)
    ]
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


class Progress:
    """Fed with looks at the recorder. What was pending before the first look belongs to a group of the past."""

    def __init__(self, before: Mapping[GroupKey, Status], interval_s: float) -> None:
        self._past = {key: status for key, status in before.items() if status.is_pending}
        self._last: dict[GroupKey, Status] = dict(before)
        self._still_s: dict[GroupKey, float] = dict.fromkeys(before, 0.0)
        self._longest_look_s = 2 * interval_s

    def look(self, now: Mapping[GroupKey, Status], elapsed_s: float) -> None:
        """Take in how far each group is now, `elapsed_s` after the look before."""
        for key, status in now.items():
            moved = status != self._last.get(key)
            self._still_s[key] = 0.0 if moved else self._still_s[key] + min(elapsed_s, self._longest_look_s)
        self._last = dict(now)

    def waits(self) -> dict[GroupKey, float]:
        """The groups with something pending, and for how long they have stood still."""
        return {
            key: self._still_s[key]
            for key, status in self._last.items()
            if status.is_pending and status != self._past.get(key)
        }

    def still_s(self, key: GroupKey) -> float:
        """How long nothing has begun or ended in this group."""
        return self._still_s.get(key, 0.0)

    def forget(self, key: GroupKey) -> None:
        """Do not count what is pending in this group now as a wait; what comes later may be one."""
        self._past[key] = self._last[key]
