"""Which pushes of one life of a worker a server has taken: what servers and workers tell each other of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.ps.proto import ps_pb2


class TakenPushes(NamedTuple):
    """The pushes of one life of a worker that were taken: all up to `upto`, and those in `later`."""

    incarnation: int
    upto: int
    later: frozenset[int]

    @classmethod
    def of(cls, message: ps_pb2.Taken) -> TakenPushes:
        """What a message says."""
        return cls(message.incarnation, message.upto, frozenset(message.later))

    def message(self) -> ps_pb2.Taken:
        """The message that says this."""
        return ps_pb2.Taken(incarnation=self.incarnation, upto=self.upto, later=sorted(self.later))

    def __contains__(self, sequence: object) -> bool:
        return isinstance(sequence, int) and (sequence <= self.upto or sequence in self.later)

    def reaches(self, other: TakenPushes) -> bool:
        """Whether this has all that `other` has, or belongs to a later life."""
        if self.incarnation != other.incarnation:
            return self.incarnation > other.incarnation or not (other.upto or other.later)
        if other.upto - self.upto > len(self.later):
            return False
        return all(one in self for one in (*other.later, *range(self.upto + 1, other.upto + 1)))

    def joined(self, other: TakenPushes) -> TakenPushes:
        """What either has; where their lives differ, the one of the newer life."""
        if self.incarnation != other.incarnation:
            return max(self, other, key=lambda one: one.incarnation)
        upto = max(self.upto, other.upto)
        return TakenPushes(self.incarnation, upto, frozenset(one for one in self.later | other.later if one > upto))

    def without(self, sequence: int) -> TakenPushes:
        """All of these but one."""
        upto = sequence - 1 if 0 < sequence <= self.upto else self.upto
        later = {*self.later, *range(upto + 1, self.upto + 1)} - {sequence}
        return TakenPushes(self.incarnation, upto, frozenset(later))


def joined_all(held: Iterable[Iterable[ps_pb2.Taken]]) -> list[TakenPushes]:
    """What any server has of each worker; `held` has what each server has said."""
    return [reduce(TakenPushes.joined, map(TakenPushes.of, found)) for found in zip(*held, strict=True)]


def wanted_of(messages: Sequence[ps_pb2.Taken], num_workers: int, who: str) -> list[TakenPushes]:
    """What `who`, a cut or a move, is to hold of each worker; UsageError if that is not of each."""
    if len(messages) != num_workers:
        raise UsageError(f"{who} says what it holds of {num_workers} workers, got {len(messages)}")
    return [TakenPushes.of(one) for one in messages]


def still_missing(taken: Sequence[TakenPushes], wanted: Sequence[TakenPushes]) -> list[int]:
    """The workers whose pushes are wanted and have not come yet."""
    pairs = zip(taken, wanted, strict=True)
    return [worker for worker, (here, there) in enumerate(pairs) if not here.reaches(there)]


def born_since(taken: Sequence[TakenPushes], wanted: Sequence[TakenPushes]) -> list[int]:
    """The workers that have begun a life since it was agreed what is wanted."""
    pairs = zip(taken, wanted, strict=True)
    return [worker for worker, (here, there) in enumerate(pairs) if here.incarnation > there.incarnation]
