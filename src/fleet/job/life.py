"""What is known of one life of a process of a job, whoever started it."""

from typing import Protocol


class ProcessLife(Protocol):
    """One life of a process."""

    life: int
    """How often a process was started in this place before."""
    pid: int
    started_at: float
    """In seconds since 1970, as the other moments."""
    exited_at: float | None
    status: int | None
    """Its exit code, -n for signal n; None while it runs."""

    @property
    def name(self) -> str:
        """`worker 0`, `server 3`."""

    @property
    def role(self) -> str:
        """`worker` or `server`; a copy of a server is a `copy`."""

    @property
    def was_refused(self) -> bool:
        """Whether a worker has ended with an error of usage, or over a state that does not fit, before it began."""

    @property
    def back_at(self) -> float | None:
        """When a server began to serve, or a worker had joined its servers; None before."""
