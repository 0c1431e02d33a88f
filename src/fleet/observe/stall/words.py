"""What reports of stalls have in common: who is silent, the stacks, how a job ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fleet.json_form import JsonForm
from fleet.observe.waits.waiting import workers_text

EXIT_CODE = 124
"""How a worker ends after a stall: the code that `timeout` has for a command that took too long."""

SILENCE = "its process is stopped or stuck outside Python, or its machine is gone"
MAX_STACKS = 3


class LocatedWorker(Protocol):
    """Where one worker is."""

    @property
    def worker(self) -> int:
        """The index of the worker."""

    @property
    def pid(self) -> int:
        """The id of its process."""

    @property
    def host(self) -> str:
        """The machine that it runs on."""

    @property
    def stack(self) -> tuple[str, ...]:
        """The stack of its main thread, or of the one that waits; innermost line last."""


@dataclass(frozen=True)
class StallOutcome(JsonForm):
    """What every worker needs to end: the report, who did not come, and how many write the report."""

    text: str
    behind: tuple[int, ...]
    num_answers: int

    @property
    def summary(self) -> str:
        """The line that says who has waited for whom."""
        return next((line for line in self.text.splitlines() if " has waited " in line), self.text.splitlines()[0])


def silent_text(worker: int, addresses: Mapping[int, str]) -> str:
    """`worker 1 (pid 5002 on node3) does not answer: its process is stopped or ...`."""
    at = f" ({addresses[worker]})" if worker in addresses else ""
    return f"worker {worker}{at} does not answer: {SILENCE}"


def left_text(worker: int) -> str:
    """`worker 1 did not come: its script has ended or ...`, for one that has left the job."""
    return f"worker {worker} did not come: its script has ended or has called fleet.shutdown()"


def ending_text(what: str, timeout_s: float) -> str:
    """The last line of a report; `what` may take so long."""
    return (
        f"the job ends with exit code {EXIT_CODE}; FLEET_STALL_TIMEOUT_S says how long {what} may take "
        f"(now {timeout_s:g})"
    )


def stack_lines(states: Iterable[LocatedWorker]) -> list[str]:
    """Each stack once, with those who share it."""
    shared: dict[tuple[str, ...], list[LocatedWorker]] = {}
    for state in states:
        shared.setdefault(state.stack, []).append(state)
    lines = []
    for stack, owners in list(shared.items())[:MAX_STACKS]:
        lines.append(_owners(owners))
        lines += [f"  {line}" for line in stack]
    if len(shared) > MAX_STACKS:
        lines.append(f"and {len(shared) - MAX_STACKS} other stacks")
    return lines


def _owners(owners: Sequence[LocatedWorker]) -> str:
    first = owners[0]
    return f"stack of {workers_text([one.worker for one in owners])} (pid {first.pid} on {first.host}):"
