"""Who did not come to a collective, and the text that says so; functions of data, without a process in sight."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fleet.collective.stall.flight import Operation
from fleet.observe.stall.words import (
    Findings,
    Located,
    Noticed,
    StallOutcome,
    ending_text,
    left_text,
    silent_text,
    stack_lines,
)
from fleet.observe.waits.waiting import Awaited, workers_text
from fleet.observe.whereabouts import whereabouts

# Their sizes must be equal on all workers; those of the others may differ.
_SAME_SIZES = ("all_reduce", "broadcast", "reduce")


@dataclass(frozen=True)
class Stall(Noticed):
    """A collective that waits, in one group: what the report is about. The same on every worker.

    `number` is 0 where torch's recorder has forgotten the operation.
    """

    backend: str
    group: str
    group_title: str
    members: tuple[int, ...]
    number: int
    title: str
    worker: int
    waited_s: float

    def is_same(self, other: Stall) -> bool:
        """Whether both mean one operation, whoever noticed it."""
        return (self.backend, self.group, self.number) == (other.backend, other.group, other.number)


@dataclass(frozen=True)
class State(Located):
    """Where one worker is, seen from a stall.

    `reached` and `reached_title` are the last collective it enqueued in the stalled group, `own_title` the one that it
    has under the stalled number, `waits_in` what it waits for itself, in whichever group.
    """

    reached: int = 0
    reached_title: str = ""
    own_title: str = ""
    waits_in: str = ""
    quiet_s: float = 0.0


def look_around(
    worker: int, stall: Stall, found: Iterable[Operation], waiting: Operation | None, quiet_s: float
) -> State:
    """The state of this process. `waiting` is what it waits for itself."""
    here = [one for one in found if (one.backend, one.group) == (stall.backend, stall.group)]
    last = max(here, key=lambda one: one.number, default=None)
    own = next((one for one in here if one.number == stall.number), None)
    stack, where = whereabouts(None if waiting is None else waiting.thread)
    return State(
        worker=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        reached=0 if last is None else last.number,
        reached_title="" if last is None else last.title,
        own_title="" if own is None else own.title,
        waits_in="" if waiting is None else waiting.title,
        quiet_s=quiet_s,
        where=where,
        stack=stack,
    )


StallFindings: TypeAlias = Findings[Stall, State]


def outcome_of(findings: StallFindings, timeout_s: float) -> StallOutcome:
    """The outcome of what the workers said; `timeout_s` is how long the collective was allowed to take."""
    return StallOutcome(report(findings, timeout_s), judge(findings).behind, len(findings.states))


@dataclass(frozen=True)
class Verdict:
    """The members of a stalled group, by what they did; `behind` and `silent` did not come."""

    waiting: tuple[int, ...]
    behind: tuple[int, ...]
    silent: tuple[int, ...]
    left: tuple[int, ...]
    differing: Mapping[str, tuple[int, ...]]
    """The workers by what they called, if that is not the same everywhere; else empty."""

    @property
    def absent(self) -> tuple[int, ...]:
        """Every member that did not come, in ascending order: late, silent, or no longer in the job."""
        return tuple(sorted((*self.behind, *self.silent, *self.left)))


def judge(findings: StallFindings) -> Verdict:
    """Work out who did not come."""
    stall, states = findings.stall, findings.states
    came = [one for one in stall.members if one in states and states[one].reached >= stall.number]
    gone = {one for one in findings.left if one not in states}
    called: dict[str, list[int]] = {}
    for worker in came:
        if title := states[worker].own_title:
            called.setdefault(_essence(title), []).append(worker)
    return Verdict(
        waiting=tuple(came),
        behind=tuple(one for one in stall.members if one in states and one not in came),
        silent=tuple(one for one in stall.members if one not in states and one not in gone),
        left=tuple(one for one in stall.members if one in gone),
        differing={title: tuple(workers) for title, workers in called.items()} if len(called) > 1 else {},
    )


def notice(findings: StallFindings, timeout_s: float) -> str:
    """One line about a collective that takes long, while there is still hope."""
    late, place = _late(findings)
    return (
        f"{_has_waited(findings.stall)}{f' for {workers_text(late)}' if late else ''}{place}; "
        f"after {timeout_s:g} s the job ends (FLEET_STALL_TIMEOUT_S)"
    )


def awaited(findings: StallFindings) -> Awaited:
    """The same for fleetrun."""
    late, place = _late(findings)
    call = f"{findings.stall.title} of {findings.stall.group_title}"
    if not late:
        return Awaited(f"{call}, to which every worker has come")
    return Awaited(f"{workers_text(late)} to come to {call}{place}", late)


def _late(findings: StallFindings) -> tuple[tuple[int, ...], str]:
    """Who has not come, and the one place where they are, if it is one."""
    verdict = judge(findings)
    wheres = {findings.states[one].where for one in verdict.behind} - {""}
    return verdict.absent, f", at {wheres.pop()}" if len(wheres) == 1 else ""


def report(findings: StallFindings, timeout_s: float) -> str:
    """The whole text: stacks first, then what happened, since the end of a log is what is shown of it."""
    stall, states, trouble = findings.stall, findings.states, findings.trouble
    verdict = judge(findings)
    lines = ["a collective has stalled"]
    lines += stack_lines([states[one] for one in verdict.behind or verdict.waiting])
    lines.append(
        _has_waited(stall) + (f" for {workers_text(verdict.absent)}" if verdict.absent and not trouble else "")
    )
    lines += [_behind(states[one]) for one in verdict.behind]
    lines += [left_text(one) for one in verdict.left]
    if trouble:
        lines.append(trouble)
    else:
        lines += [silent_text(one, findings.addresses) for one in verdict.silent]
    if verdict.differing:
        lines.append("the workers called different operations, or one with different sizes:")
        lines += [
            f"  {workers_text(workers)}: {states[workers[0]].own_title} at {states[workers[0]].where}"
            for workers in verdict.differing.values()
        ]
    elif not stall.number:
        lines.append("torch's recorder has forgotten which one: the stacks say where those who answered are")
    elif not verdict.absent:
        lines.append("every worker of the group came: look at the network, and at devices that are stuck")
    elif others := [one for one in verdict.waiting if one != stall.worker]:
        lines.append(f"also waiting: {workers_text(others)}")
    lines.append(ending_text("a collective", timeout_s))
    return "\n".join(lines)


def _has_waited(stall: Stall) -> str:
    return f"worker {stall.worker} has waited {stall.waited_s:.0f} s in {stall.title} of {stall.group_title}"


def _behind(state: State) -> str:
    if not state.reached:
        done = "it has not been in this group lately"
    elif state.waits_in == state.reached_title:
        done = f"it still waits in {state.waits_in}"
    else:
        done = f"it finished {state.reached_title} {state.quiet_s:.0f} s ago"
        done += f", waits in {state.waits_in} of another group" if state.waits_in else ""
    return f"worker {state.worker} did not come: {done}" + (f" and is at {state.where}" if state.where else "")


def _essence(title: str) -> str:
    """What must be equal on all workers: the operation, and for some also the sizes."""
    name = title.split(" ", 1)[0]
    return title if name in _SAME_SIZES else name
