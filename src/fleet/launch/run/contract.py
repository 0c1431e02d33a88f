"""What a round asks of those who take part in it without belonging to it, and what it tells itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fleet.launch.processes.child import Child


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


@dataclass(frozen=True)
class Signalled:
    """The launcher itself was told to stop."""

    number: int
