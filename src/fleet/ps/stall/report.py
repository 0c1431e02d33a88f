"""Who keeps a job with servers waiting, and the text that says so; functions of data, without a process in sight."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from fleet.observe.stall.words import (
    SILENCE,
    Findings,
    Located,
    Noticed,
    StallOutcome,
    ending_text,
    left_text,
    silent_text,
    stack_lines,
)
from fleet.observe.waits.waiting import workers_text

MAX_LINES = 16
"""The most lines of a report about workers that are in the same state."""


@dataclass(frozen=True)
class OverdueWait(Noticed):
    """A wait that has taken too long. `what` follows `waits for`; `server` is the one that owes an answer, if any."""

    worker: int
    what: str
    workers: tuple[int, ...]
    server: str
    waited_s: float


@dataclass(frozen=True)
class WorkerState(Located):
    """Where one worker is.

    `num_steps` counts those it has made, None before it has joined; the last ended `idle_s` ago, 0.0 if there was none.
    `waits_for` is what it waits for itself, since `waited_s`, and `server` the server that it asked for an answer then.
    `is_served`: that server is there, or has said that it is at work. `waits_for_workers`: the first of the workers
    that it waits for. `age_s`: how long this life of it has been watched.
    """

    num_steps: int | None = None
    idle_s: float = 0.0
    waits_for: str = ""
    waited_s: float = 0.0
    server: str = ""
    is_served: bool = False
    age_s: float = 0.0
    waits_for_workers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Limits:
    """`timeout_s`: how long one may wait; `return_s`: how long a worker that is started again may be away, or 0."""

    timeout_s: float
    return_s: float = 0.0


@dataclass(frozen=True)
class WaitFindings(Findings[OverdueWait, WorkerState]):
    """What the workers said; `seen` are those that answered the call before this one, not long ago."""

    seen: Set[int] = frozenset()


@dataclass(frozen=True)
class WaitVerdict:
    """The workers that others wait for, by what they do."""

    behind: tuple[int, ...]
    """They answer, and are neither at work nor gone."""
    silent: tuple[int, ...]
    left: tuple[int, ...]
    excused: tuple[int, ...]
    """They are at work, or about to come back."""


def judge(findings: WaitFindings, limits: Limits) -> WaitVerdict:
    """Work out who keeps the others waiting."""
    stall, states = findings.stall, findings.states
    late = [one for one in stall.workers if one != stall.worker]
    gone = {one for one in late if one in findings.left and one not in states}
    silent = [one for one in late if one not in states and one not in gone]
    away = [one for one in silent if limits.return_s > 0 and (stall.waited_s < limits.return_s or one in findings.seen)]
    working = _at_work(findings, limits, away)
    at_work = [one for one in late if one in states and one in working]
    return WaitVerdict(
        behind=tuple(one for one in late if one in states and one not in at_work),
        silent=tuple(one for one in silent if one not in away),
        left=tuple(one for one in late if one in gone),
        excused=tuple(sorted((*at_work, *away))),
    )


def _at_work(findings: WaitFindings, limits: Limits, away: Sequence[int]) -> set[int]:
    """The workers that make steps, have a server work for them, or were just started again, and those away.

    A worker with slow steps may be seen while it waits for others, which must be at work then.
    """
    found = {*away, *(one for one, state in findings.states.items() if _is_excused(state, limits))}
    stepped = {one: state for one, state in findings.states.items() if _has_stepped(state, limits)}
    stepped.pop(findings.stall.worker, None)
    found |= {one for one, state in stepped.items() if not state.waits_for}
    while more := {
        one
        for one, state in stepped.items()
        if one not in found and state.waits_for_workers and found.issuperset(state.waits_for_workers)
    }:
        found |= more
    return found


def _is_excused(state: WorkerState, limits: Limits) -> bool:
    new_s = limits.return_s if state.num_steps is None else limits.timeout_s
    return state.is_served or (limits.return_s > 0 and state.age_s < new_s)


def _has_stepped(state: WorkerState, limits: Limits) -> bool:
    return bool(state.num_steps) and 0.0 < state.idle_s < limits.timeout_s


def outcome_of(findings: WaitFindings, limits: Limits) -> StallOutcome | None:
    """How the job ends; None if whoever is waited for is at work."""
    verdict = judge(findings, limits)
    if not findings.trouble:
        if verdict.excused and not (verdict.behind or verdict.silent or verdict.left):
            return None
        # Nobody could say whom it waits for; it may be anybody.
        if not findings.stall.workers and not findings.stall.server and _at_work(findings, limits, ()):
            return None
    return StallOutcome(report(findings, limits), verdict.behind, len(findings.states))


def report(findings: WaitFindings, limits: Limits) -> str:
    """The whole text: stacks first, then what happened, since the end of a log is what is shown of it."""
    stall, states, trouble = findings.stall, findings.states, findings.trouble
    verdict = judge(findings, limits)
    waiting = [one for one in states if states[one].waits_for and one not in verdict.behind and one != stall.worker]
    lines = ["a job with servers has stalled"]
    lines += stack_lines([states[one] for one in verdict.behind or (stall.worker,) if one in states])
    lines.append(f"worker {stall.worker} has waited {stall.waited_s:.0f} s for {stall.what}")
    lines += _few([_behind(states[one]) for one in verdict.behind[:MAX_LINES]], len(verdict.behind))
    lines += _few([left_text(one) for one in verdict.left], len(verdict.left))
    if trouble:
        lines.append(trouble)
    else:
        lines += _few([silent_text(one, findings.addresses) for one in verdict.silent], len(verdict.silent))
    if stall.server and not trouble:
        lines.append(f"server {stall.server} does not answer: {SILENCE}")
    if not verdict.behind and (where := states[stall.worker].where):
        lines.append(f"worker {stall.worker} is at {where}")
    lines += _few([f"worker {one} is at work" for one in verdict.excused], len(verdict.excused))
    same = [one for one in waiting if states[one].waits_for == stall.what]
    if same:
        lines.append(f"also waiting: {workers_text(sorted(same))}")
    others = [states[one] for one in waiting if one not in same]
    lines += [f"worker {one.worker} has waited {one.waited_s:.0f} s for {one.waits_for}" for one in others[:3]]
    lines.append(ending_text("a wait for others", limits.timeout_s))
    return "\n".join(lines)


def _few(lines: Sequence[str], number: int) -> list[str]:
    """The first of `number` lines that say the same about many workers: the size of a report is limited."""
    more = number - MAX_LINES
    return list(lines) if more <= 0 else [*lines[:MAX_LINES], f"and {more} more, likewise"]


def _behind(state: WorkerState) -> str:
    if state.num_steps is None:
        done = "it has not joined the servers"
    elif state.num_steps and state.idle_s:
        done = f"it finished step {state.num_steps - 1} {state.idle_s:.0f} s ago"
    else:
        done = "it has finished no step"
    if state.waits_for:
        silent = " (which does not answer)" if state.server and not state.is_served else ""
        done += f", has waited {state.waited_s:.0f} s for {state.waits_for}{silent}"
    return f"worker {state.worker} did not come: {done}" + (f" and is at {state.where}" if state.where else "")
