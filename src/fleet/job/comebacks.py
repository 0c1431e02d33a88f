"""Processes that died and were started again: how each died, when it was back, and all of them in one line."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.job.endings import signal_name


@dataclass
class Comeback:
    """A process that died and was started again."""

    name: str
    how: str
    """`was killed by SIGKILL`, `ended with exit code 1`."""
    life: int
    """2 for the first time it was started again."""
    died_at: float
    """In seconds since 1970, as `back_at`."""
    back_at: float | None = None
    """When a server listened, or a worker had joined its servers; None before, and if it never did."""

    @property
    def took_s(self) -> float | None:
        """From its death until it was back."""
        return None if self.back_at is None else self.back_at - self.died_at


def how_it_died(status: int) -> str:
    """`was killed by SIGKILL`, `ended with exit code 1`."""
    if status == 0:
        return "was stopped, though its workers have not finished"
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with exit code {status}"


def summary(returns: Iterable[Comeback]) -> str | None:
    """`3 restarts: server 1 back after 0.8 s and 1.2 s, worker 0 back after 2.0 s`; None if there were none."""
    by_name: defaultdict[str, list[float | None]] = defaultdict(list)
    for one in returns:
        by_name[one.name].append(one.took_s)
    if not by_name:
        return None
    number = sum(map(len, by_name.values()))
    parts = ", ".join(f"{name} {_times(took)}" for name, took in by_name.items())
    return f"{number} restart{'s' if number > 1 else ''}: {parts}"


def _times(took: list[float | None]) -> str:
    known = [seconds for seconds in took if seconds is not None]
    if not known:
        return "not back" if len(took) == 1 else f"{len(took)} times, not back"
    if len(known) > 3:
        text = f"{len(took)} times, back after {min(known):.1f} s to {max(known):.1f} s"
    else:
        text = "back after " + " and ".join(f"{seconds:.1f} s" for seconds in known)
    missing = len(took) - len(known)
    return f"{text} ({missing} time{'s' if missing > 1 else ''} not back)" if missing else text
