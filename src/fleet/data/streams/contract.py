"""What is asked of a broker: the partitions of a stream, and the records of one from a position on.

Positions of a partition ascend, may have gaps, and never change. Whoever reads keeps its own, so a broker need not know
who has read what. Calls come from one thread at a time. Where a broker does not answer, they raise ConnectionError, and
the same call may be made again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.data.columns.blocks import Block

MOST_AT_ONCE, MOST_BYTES_AT_ONCE = 4096, 8 << 20
"""What one `read` gives at most; a record may be larger."""
ANSWER_S = 5.0
"""How long one call may take."""


class StreamUrl(NamedTuple):
    """A URL in its parts; `login` and `options` may hold secrets and are in no text."""

    kind: str
    login: str
    hosts: str
    name: str
    options: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.kind}://{self.hosts}/{self.name}"


class StreamRecord(NamedTuple):
    """A record: where it stands, when it came to the broker (seconds since 1970), and its bytes."""

    position: int
    time_s: float
    value: bytes


@dataclass(frozen=True)
class Chunk(Block):
    """Records of one partition, from position `first` up to, without, `last`."""

    records: tuple[StreamRecord, ...]


class Stream(ABC):
    """One stream (of NATS) or topic (of Kafka), connected."""

    name: str
    """Its URL without secrets: of errors and positions."""
    partitions: Sequence[str]
    """The same for all workers, in the same order."""
    made: str = ""
    """When it was made, if the broker says so: positions are of this one."""

    @abstractmethod
    def bounds(self, partition: str) -> tuple[int, int]:
        """The first position that the broker still has, and the one behind its last."""

    @abstractmethod
    def read(self, partition: str, position: int) -> tuple[list[StreamRecord], int]:
        """The records from a position on, and where to go on; none: there are no more now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; idempotent."""
