"""Which part a process has in a job whose servers have copies: a server, a copy of one, or neither any more.

The terms in the folder of the job say so, and nothing else: not what the process was started as.
"""

import threading
from enum import Enum

from fleet import env
from fleet.errors import CommunicationError, MovedError, UsageError
from fleet.jobfiles.terms import Term, Terms, own_copy, own_terms


class Part(Enum):
    """What a process is."""

    SERVER = "a server"
    COPY = "a copy"
    DEPOSED = "a server no more"


class Standing:
    """What one process is in the newest term that it knows. Safe to use from many threads."""

    def __init__(self, terms: Terms, endpoint: str, copy_of: int | None, *, is_sync: bool) -> None:
        """`copy_of`: the server as whose copy this process was started. `is_sync`: servers wait for their copies."""
        self.is_sync = is_sync
        self._terms = terms
        self._endpoint = endpoint
        self._copy_of = copy_of
        self._looking = threading.Lock()
        newest = terms.newest()
        if newest is None:
            raise UsageError(
                f"FLEET_STANDBY is set, and {terms.folder} has no term, which says who the servers are; start the job "
                "by fleetrun --standby"
            )
        self.term: Term = newest
        self.part, self.server = self._found(newest)

    @property
    def number(self) -> int:
        """The number of the newest term that this process knows."""
        return self.term.number

    @property
    def has_copy(self) -> bool:
        """Whether the term lists a copy of this server, which may take its place."""
        return bool(self.term.copies[self.server])

    @property
    def is_listed(self) -> bool:
        """Whether this is a copy that the term lists, which may take its server's place."""
        return self.part is Part.COPY and self._endpoint in self.term.copies

    def look(self) -> bool:
        """See whether there is a newer term; whether there is."""
        with self._looking:
            later = self._terms.later(self.term.number)
            if later is None:
                return False
            self.part, self.server = self._found(later)
            self.term = later
            return True

    def admit(self, term: int) -> None:
        """Raise for a caller by whose term this process is no server, or who knows less than it, or more."""
        if term > self.number:
            self.look()
        if self.part is Part.DEPOSED:
            raise MovedError(f"term {self.number}: this process is a server no more")
        if term < self.number:
            raise MovedError(f"the servers of term {term} are those of term {self.number} now")
        if term > self.number:
            error = CommunicationError(f"this server knows of term {self.number}, and not yet of {term}")
            error.retryable = True
            raise error

    def _found(self, term: Term) -> tuple[Part, int]:
        if self._endpoint in term.servers:
            self._copy_of = None  # once it is a server no more it is no copy either
            return Part.SERVER, term.servers.index(self._endpoint)
        if self._endpoint in term.copies:
            return Part.COPY, term.copies.index(self._endpoint)
        if self._copy_of is not None:
            return Part.COPY, self._copy_of
        return Part.DEPOSED, -1


def own_standing(endpoint: object) -> Standing | None:
    """What this process is, which serves at an endpoint; None in a job whose servers have no copies."""
    terms = own_terms()
    if terms is None:
        return None
    if env.FLEET_JOURNAL.get() == "OFF":
        raise UsageError(
            "FLEET_STANDBY needs a journal, which a copy reads; leave FLEET_JOURNAL=OFF (--journal off) out"
        )
    return Standing(terms, str(endpoint), own_copy(), is_sync=env.FLEET_STANDBY.get() == "SYNC")
