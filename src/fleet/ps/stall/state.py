"""What one worker knows of itself when somebody has waited too long, as data that travels to the others."""

from dataclasses import dataclass

from fleet.observe.stall.words import Located, Noticed


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

    worker: int
    host: str
    pid: int
    num_steps: int | None = None
    idle_s: float = 0.0
    waits_for: str = ""
    waited_s: float = 0.0
    server: str = ""
    is_served: bool = False
    age_s: float = 0.0
    where: str = ""
    stack: tuple[str, ...] = ()
    waits_for_workers: tuple[int, ...] = ()
