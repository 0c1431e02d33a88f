"""What a broker does as a place for batches: it keeps bytes by folder and name, and says when there are some."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Store(ABC):
    """Bytes by folder and name. What cannot be done now is an OSError, which may pass."""

    most_bytes: int
    """How large one value may be."""

    @abstractmethod
    def put_head(self, blob: bytes) -> None:
        """Replace the one value that has no name."""

    @abstractmethod
    def head(self) -> bytes | None:
        """That value; None if there is none."""

    @abstractmethod
    def add(self, folder: str, name: str, blob: bytes) -> bool:
        """Keep a value; False, and nothing is changed, if there is one of that name. Those who wait are told."""

    @abstractmethod
    def get(self, folder: str, name: str) -> bytes | None:
        """A value; None if there is none."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names in a folder, in no order."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The folders in which something may be."""

    @abstractmethod
    def remove(self, folder: str, names: list[str]) -> None:
        """Remove values; those that are not there count as removed."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something was added, or after this time."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections; idempotent."""
