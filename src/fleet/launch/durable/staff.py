"""The processes of this machine, as those see them who add some and let others go."""

from collections.abc import Sequence
from typing import Protocol

from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import ReadyProcess


class Staff(Protocol):
    """What is asked of a crew."""

    children: list[Child]

    def add(self, ready: Sequence[ReadyProcess]) -> list[Child]:
        """Start more processes; OSError at the first that cannot be started."""

    def release(self, child: Child) -> None:
        """End all that is left of a process that has ended."""

    def drop(self, child: Child) -> ReadyProcess:
        """Forget a process that was released; what it was started with."""
