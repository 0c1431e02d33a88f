"""What reports of stalls have in common: who is silent, the stacks, how a job ends."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fleet.json_form import JsonForm
from fleet.observe.waits.waiting import workers_text

EXIT_CODE = 124
"""How a worker ends after a stall: the code that `timeout` has for a command that took too long."""

SILENCE = "its process is stopped or stuck outside Python, or its machine is gone"
MAX_STACKS = 3


class Noticed(JsonForm):
    """A stall, whatever it is about."""

    worker: int
    """Who noticed it."""


@dataclass(frozen=True)
class Located(JsonForm):
    """Where one worker is."""

    worker: int
    host: str
    pid: int
    where: str = ""
    """The innermost line that the user wrote."""
    stack: tuple[str, ...] = ()
    """The stack of its main thread, or of the one that waits; innermost line last."""


Stall = TypeVar("Stall", bound=Noticed)
State = TypeVar("State", bound=Located)


@dataclass(frozen=True)
class Findings(Generic[Stall, State]):
    """What the workers said of a stall.

    `left` are the workers that have left the job, and `addresses` says where each one runs. `trouble` says why the
    others could not be asked, if so; then the silence of a worker means nothing.
    """

    stall: Stall
    states: Mapping[int, State]
    left: Set[int] = frozenset()
    addresses: Mapping[int, str] = field(default_factory=dict)
    trouble: str = ""


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


def stack_lines(states: Iterable[Located]) -> list[str]:
    """Each stack once, with those who share it."""
    shared: dict[tuple[str, ...], list[Located]] = {}
    for state in states:
        shared.setdefault(state.stack, []).append(state)
    lines = []
    for stack, owners in list(shared.items())[:MAX_STACKS]:
        lines.append(_owners(owners))
        lines += [f"  {line}" for line in stack]
    if len(shared) > MAX_STACKS:
        lines.append(f"and {len(shared) - MAX_STACKS} other stacks")
    return lines


def _owners(owners: Sequence[Located]) -> str:
    first = owners[0]
    return f"stack of {workers_text([one.worker for one in owners])} (pid {first.pid} on {first.host}):"
