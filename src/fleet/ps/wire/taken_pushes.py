"""Which pushes of one life of a worker a server has taken: what servers and workers tell each other of it."""

from __future__ import annotations

from typing import NamedTuple


class TakenPushes(NamedTuple):
    """The pushes of one life of a worker that were taken: all up to `upto`, and those in `later`."""

    incarnation: int
    upto: int
    later: frozenset[int]

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
