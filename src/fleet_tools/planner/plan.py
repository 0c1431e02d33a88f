"""The plan: where everything goes, in which mode, how long a step would take, why, and what to write."""

from dataclasses import asdict, dataclass
from typing import Any

from fleet_tools.planner.facts import Question, Workload
from fleet_tools.planner.show import as_text


@dataclass(frozen=True)
class MemoryPart:
    """Something that takes memory, where, by formula and as one step had it."""

    what: str
    where: str
    estimate: int | None
    measured: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Times:
    """A step of the plan; None where nobody has measured what it would run on."""

    compute_s: float | None
    exchange_s: float
    step_s: float | None
    samples_per_s: float | None


@dataclass(frozen=True)
class Choice:
    """What one way to train makes of a question; `make_plan` adds what all ways share."""

    mode: str
    """`one process`, `collective`, or `servers, sync` and its kind."""
    num_workers: int
    num_servers: int
    fits: bool
    parts: tuple[MemoryPart, ...]
    times: Times
    reasons: tuple[str, ...]
    command: str
    code: tuple[str, ...]
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A choice, and what it was made from."""

    workload: Workload
    question: Question
    choice: Choice

    def to_json(self) -> dict[str, Any]:
        """Plain data, for machines."""
        return {
            "plan": asdict(self.choice),
            "machines": asdict(self.question.machines),
            "rows": dict(self.question.rows),
            "workload": self.workload.to_plain(),
        }

    def __str__(self) -> str:
        return as_text(self)
