"""What chaos did to a job, put together from what the launcher did and what its processes noted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fleet.jobfiles.process_files import ProcessFiles
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet_tools.chaos.agent import Blow, Life
from fleet_tools.chaos.notes import Ack, ChaosNotes

CALL_FAULTS = ("drop", "repeat", "delay")


@dataclass(frozen=True)
class Recovery:
    """What became of a process that was killed, had a write torn, or was stopped; times are seconds after that."""

    what: str
    process: str
    at_s: float
    """Since the job's start."""
    restarted_s: float | None = None
    back_s: float | None = None
    """Until the server served, or the worker had joined its servers; of one that was stopped, how long it was."""
    step_s: float | None = None
    """Until the first push that it took, or that was acknowledged to it."""
    note: str = ""
    """Why it did not come back, where it need not have."""

    @property
    def is_recovered(self) -> bool:
        """Whether it came back, or was not needed any more."""
        return self.back_s is not None or bool(self.note)


@dataclass(frozen=True)
class Invariant:
    """Something that must hold whatever happens; None: it could not be checked, and the text says why."""

    name: str
    holds: bool | None
    text: str


@dataclass
class ChaosFindings:
    """Everything that the report shows."""

    chaos: str
    seed: int
    took_s: float
    exit_code: int
    events: list[dict[str, Any]] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Clauses that never happened, for the job had ended before."""

    @property
    def are_good(self) -> bool:
        """Whether no invariant is broken."""
        return all(one.holds is not False for one in self.invariants)

    @property
    def counts(self) -> Counter[str]:
        """How often each thing was done."""
        return Counter(event["what"] for event in self.events if not event.get("note"))

    def to_json(self) -> dict[str, Any]:
        """As `chaos.json` has it."""
        return {**asdict(self), "counts": dict(self.counts)}


class Witness:
    """Reads what the processes of this machine have noted, in all their lives."""

    def __init__(self, plan: LaunchPlan, began_at: float) -> None:
        self._plan = plan
        self._began_at = began_at
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.acks: dict[str, list[Ack]] = {}
        for process in plan.processes:
            notes = notes_of(process)
            self.events[process.name] = notes.read_events()
            self.acks[process.name] = notes.read_acks()

    def own_faults(self) -> Iterator[dict[str, Any]]:
        """What processes did to themselves, as lines of the report."""
        for process, events in self.events.items():
            for event in events:
                if event["event"] in (*CALL_FAULTS, "disk-full", "torn-write"):
                    more = {name: value for name, value in event.items() if name not in ("event", "time", "pid")}
                    at_s = event["time"] - self._began_at
                    yield {"at_s": at_s, "what": event["event"], "process": process, "pid": event["pid"], **more}

    def back_at(self, process: ProcessPlan, pid: int) -> float | None:
        """When a life of a process began to serve, or had declared its job to the last of its servers."""
        if process.role == "server":
            return next((one["time"] for one in self._of(process, pid, "serving")), None)
        declared: dict[int, float] = {}
        for event in self._of(process, pid, "declared"):
            declared.setdefault(event["server"], event["time"])
        return max(declared.values()) if len(declared) == len(self._plan.layout.servers) else None

    def _of(self, process: ProcessPlan, pid: int, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.events[process.name] if one["pid"] == pid and one["event"] == kind]

    def step_after(self, process: ProcessPlan, moment: float) -> float | None:
        """When the first push after a moment was acknowledged, by a server or to a worker."""
        if process.role == "worker":
            times = [ack.time for ack in self.acks[process.name]]
        else:
            times = [ack.time for acks in self.acks.values() for ack in acks if ack.server == process.index]
        return min((one for one in times if one > moment), default=None)

    def acknowledged(self, server: int) -> int:
        """How many pushes a server has acknowledged to the workers of this machine; each counts once."""
        return len(
            {
                (process, ack.incarnation, ack.sequence)
                for process, acks in self.acks.items()
                for ack in acks
                if ack.server == server
            }
        )

    def applied(self, server: int) -> int | None:
        """How many pushes it had applied when the last worker left; None if none got that far."""
        return max(
            (
                event["count"]
                for events in self.events.values()
                for event in events
                if event["event"] == "pushes" and event["server"] == server
            ),
            default=None,
        )


def notes_of(process: ProcessPlan) -> ChaosNotes:
    """Where a process leaves its notes."""
    return ChaosNotes.of(ProcessFiles.beside(process.log_path))


def recoveries(
    plan: LaunchPlan,
    witness: Witness,
    blows: Sequence[Blow],
    lives: Sequence[Life],
    began_at: float,
    *,
    ended_well: bool,
) -> list[Recovery]:
    """What became of each process that was struck, in the order of time."""
    torn = [
        Blow("torn-write", event["process"], began_at + event["at_s"], event["pid"])
        for event in witness.own_faults()
        if event["what"] == "torn-write"
    ]
    processes = {process.name: process for process in plan.processes}
    found = []
    for blow in sorted((*(blow for blow in blows if blow.is_done), *torn), key=lambda blow: blow.at):
        process, at_s = processes[blow.process], blow.at - began_at
        if blow.kind == "stop":
            step_at = witness.step_after(process, blow.at + blow.for_s)
            step_s = None if step_at is None else step_at - blow.at
            found.append(Recovery(blow.kind, blow.process, at_s, None, blow.for_s, step_s))
            continue
        later = [life for life in lives if life.process == blow.process and life.started_at > blow.at]
        found.append(_after_death(process, witness, blow, at_s, later, ended_well=ended_well))
    return found


def _after_death(
    process: ProcessPlan, witness: Witness, blow: Blow, at_s: float, later: Sequence[Life], *, ended_well: bool
) -> Recovery:
    if not later or process.role == "copy":  # another copy is filled, maybe on another machine
        note = "not needed any more" if ended_well else "another takes its place" if later else ""
        return Recovery(blow.kind, blow.process, at_s, note=note)
    restarted_s = later[0].started_at - blow.at
    back_at = witness.back_at(process, later[0].pid)
    if back_at is None:
        note = "struck again before" if len(later) > 1 else "not needed any more" if ended_well else ""
        return Recovery(blow.kind, blow.process, at_s, restarted_s, note=note)
    step_at = witness.step_after(process, back_at)
    step_s = None if step_at is None else step_at - blow.at
    return Recovery(blow.kind, blow.process, at_s, restarted_s, back_at - blow.at, step_s)
