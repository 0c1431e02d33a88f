"""How much memory a server gives to what others send: what is too large is refused before it is made or read.

FLEET_MEMORY_BUDGET is for one server; a quarter of it is for messages under way. A caller that finds no room is told to
come again, and workers do; one message at least always finds room.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet import _native, checkpoint, env
from fleet.errors import CommunicationError, UsageError
from fleet.ps.job.spec import JobSpec

SMALL_BYTES = 1 << 20
"""Messages up to this size are not counted: as many as a server can have at once do no harm."""
_PART_OF_MACHINE = 0.8
_PART_FOR_MESSAGES = 0.25
_EMPTY_TABLE_BYTES = 24 << 10


class OverBudgetError(CommunicationError):
    """There is no room for a message now; a moment later there may be."""

    retryable = True


def memory_bytes(root: Path = Path("/")) -> int:
    """The memory of this machine, or of the container if that is less."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal:")]
    with suppress(OSError, ValueError):  # no container, or one without a limit, which is the word "max"
        found.append(int((root / "sys/fs/cgroup/memory.max").read_text()))
    return min(found)


def budget_bytes() -> int:
    """What one server may take for what others send: FLEET_MEMORY_BUDGET, else 80% of the machine or container."""
    return env.FLEET_MEMORY_BUDGET.get() or int(memory_bytes() * _PART_OF_MACHINE)


def needed_bytes(job: JobSpec, server: int) -> int:
    """What a job takes on a server before it has any row: dense parameters with their state, kept tensors, tables.

    A table with rows on a disk counts with all the memory that it may take.
    """
    total = sum(spec.memory or _EMPTY_TABLE_BYTES for spec in job.tables)
    for index, group in enumerate(job.dense.groups):
        rule = _native.Rule("sum", {}) if job.mode == "geo" else _native.Rule(group.name, dict(group.args))
        arrays, scalars = checkpoint.state_form(rule.state_width)
        total += 4 * (job.dense.size(server, index) * (1 + arrays) + scalars)
    forms = [checkpoint.Form(tensor.dtype, tensor.shape) for tensor in job.kept_on(server)]
    return total + sum(form.size * form.bits.itemsize for form in forms)


def refuse_too_large(job: JobSpec, server: int) -> None:
    """UsageError if a job does not fit into the budget."""
    try:
        needed, budget = needed_bytes(job, server), budget_bytes()
    except ValueError:
        return  # an unknown rule: whoever makes it reports it
    if needed > budget:
        raise UsageError(
            f"server {server} cannot hold what the job declares: it takes {in_words(needed)}, of {in_words(budget)} "
            "that this server may use (FLEET_MEMORY_BUDGET); use more servers, or raise it"
        )


def in_words(num_bytes: int) -> str:
    """A size for errors: `8 GiB`, `100 MiB`."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if num_bytes >= size:
            return f"{num_bytes / size:,.3g} {unit}" if num_bytes < 1000 * size else f"{num_bytes // size:,} {unit}"
    return f"{num_bytes:,} bytes"


class MessageBudget:
    """The room for messages under way on one server, by whatever way they come. Safe to use from many threads."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = int(budget_bytes() * _PART_FOR_MESSAGES) if limit_bytes is None else limit_bytes
        self.native = _native.Budget(self.limit_bytes)
        """What counts: native code holds of it by itself."""
        self.num_refused = 0
        self._calls = threading.local()

    @property
    def held_bytes(self) -> int:
        """What messages take now."""
        return self.native.held

    @contextmanager
    def account(self) -> Iterator[MemoryAccount]:
        """The account of the call that this thread answers; at the end it lets go of everything."""
        if (known := getattr(self._calls, "account", None)) is not None:
            yield known
            return
        self._calls.account = made = MemoryAccount(self)
        try:
            yield made
        finally:
            self._calls.account = None
            made.let_go()

    def move(self, own: int, more: int) -> None:
        """Hold `more` for a call that holds `own` already, or, where negative, less; OverBudgetError if it is full."""
        if more <= 0:
            self.native.let_go(-more)
        elif not self.native.hold(more, own):
            self.num_refused += 1
            others = max(0, self.held_bytes - own)
            raise OverBudgetError(
                f"no room for a message of {in_words(own + more)} beside {in_words(others)} under way, of "
                f"{in_words(self.limit_bytes)} (a quarter of FLEET_MEMORY_BUDGET); it is sent again"
            )


class MemoryAccount:
    """What one call holds of a budget. Used by one thread."""

    def __init__(self, budget: MessageBudget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Hold this much in all; OverBudgetError if there is no room. Small messages are not counted."""
        if num_bytes > max(self.held_bytes, SMALL_BYTES):
            self.hold(num_bytes - self.held_bytes)

    def hold(self, num_bytes: int) -> None:
        """Hold this much more; OverBudgetError if there is no room."""
        self._budget.move(self.held_bytes, num_bytes)
        self.held_bytes += num_bytes

    def adopt(self, num_bytes: int) -> None:
        """Take over what somebody else has held for this call."""
        self.held_bytes += num_bytes

    def let_go(self) -> None:
        """Hold nothing any more."""
        self._budget.move(self.held_bytes, -self.held_bytes)
        self.held_bytes = 0
