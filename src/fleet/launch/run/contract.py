"""What a round asks of those who take part in it without belonging to it, and what it tells itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fleet.job.lives import Lives
from fleet.launch.durable.staff import Staff
from fleet.launch.meet.messages import Scaled
from fleet.launch.processes.child import Child

PATIENCE_S = 2.0
"""How long a terminal that takes nothing is waited for when the job has failed."""
AGAIN_S = 1.0
"""How long to wait when the system could not start a process, before the next try."""
REAP_EVERY_S = 30.0
"""How long an orphan that we adopted may stay a zombie."""
LOOK_EVERY_S = 1.0
"""How soon a wait that a process has noted is told."""


class Striker(Protocol):
    """Who kills and stops processes on purpose, from a thread of its own (`fleet_tools.chaos`)."""

    def start(self, children: Callable[[], Sequence[Child]], excuse: Callable[[int], None]) -> None:
        """Begin, once all have started; `children` gives those of now, `excuse` is told who is about to be killed."""

    def stop(self) -> None:
        """Strike nobody any more, and let go on whoever is stopped; idempotent."""


class Calm:
    """The striker of a job without chaos."""

    def start(self, children: Callable[[], Sequence[Child]], excuse: Callable[[int], None]) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Go on doing nothing."""


class Changer(Protocol):
    """Who starts and stops processes while a job runs, because it wants more of them, or fewer (`durable`)."""

    def look(self, crew: Staff, lives: Lives[Child]) -> None:
        """Start and stop what is to be; called again and again."""

    def takes(self, child: Child, crew: Staff) -> bool:
        """Whether a process that has ended was to end, and has been seen to."""

    def hear(self, told: Scaled) -> None:
        """Take note of what launchers say of the number of workers."""


@dataclass(frozen=True)
class Signalled:
    """The launcher itself was told to stop."""

    number: int
