"""How the watches of a job's workers reach each other: notes that all of them see, each under a name."""

from collections.abc import Iterable, Sequence
from typing import Protocol


class Board(Protocol):
    """Every call has a limit, and raises CommunicationError if the host is silent."""

    def close(self) -> None:
        """Nothing may be called afterwards."""

    def put(self, key: str, value: str, limit_s: float | None = None) -> None:
        """Set a value; what stood there is replaced."""

    def put_first(self, key: str, value: str) -> str:
        """Put a value unless somebody has; return the one that stands."""

    def get(self, key: str) -> str | None:
        """The value, or None while there is none."""

    def get_all(self, keys: Iterable[str]) -> dict[str, str]:
        """The values of the keys that have one."""

    def wait(self, keys: Sequence[str], limit_s: float) -> None:
        """Return when all keys have a value, or the time is up."""

    def count(self, key: str, more: int) -> int:
        """Add to a counter and return what it says now."""
