"""A server that a directory lists (`fleet.net.directory`): reached where it listens now, over a transport for that."""

import logging
import threading
from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from fleet.errors import FleetError
from fleet.net import Endpoint, Listed
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.transport import Answer, TakesAhead, Transport, failed

_log = logging.getLogger(__name__)


def reached(place: Endpoint, reach: Callable[[Endpoint], Transport]) -> Transport:
    """A transport to a server: `reach` makes one to an endpoint, which a directory may have to tell first."""
    return ListedTransport(place, reach) if isinstance(place, Listed) else reach(place)


class ListedTransport(Transport, TakesAhead):
    """One server, wherever it listens: `look_again` asks the directory, and calls from then on go there."""

    def __init__(self, place: Listed, reach: Callable[[Endpoint], Transport]) -> None:
        self.endpoint = str(place)
        self._place = place
        self._directory = place.directory
        self._reach = reach
        self._lock = threading.Lock()
        self._where: Endpoint | None = None
        self._present: Transport | None = None
        self._former: Transport | None = None
        self._why = "the directory does not list it yet"
        self._is_closed = False

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        if self._present is None:
            self.look_again()
        present = self._present
        if present is None:
            return failed(unreachable(self.endpoint, method, self._why))
        return present.call(method, header, tensors, timeout_s)

    def look_again(self) -> bool:
        with self._lock:
            if self._is_closed:
                return False
            try:
                found = self._directory.find(self._place.server)
            except (OSError, FleetError) as error:
                self._why = f"the directory cannot be asked: {error}"
                return False
            if found is None or found == self._where:
                return False
            # Calls may wait on the present one; nothing can on the one before, which is two servers ago.
            past, self._former = self._former, self._present
            self._present, self._where = self._reach(found), found
        if past is not None:
            past.close()
        if self._former is not None:
            _log.info("server %d is at %s now", self._place.server, found)
        return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for one in (self._present, self._former):
            if one is not None:
                one.close()

    @property
    def takes_ahead(self) -> bool:
        ahead = self._ahead()
        return ahead is not None and ahead.takes_ahead

    def send_ahead(self, pieces: Sequence[memoryview | bytes]) -> int:
        ahead = self._ahead()
        return 0 if ahead is None else ahead.send_ahead(pieces)

    def claim(self, tensor: Tensor, begin: int, number: int) -> None:
        if (ahead := self._ahead()) is not None:
            ahead.claim(tensor, begin, number)

    def forget_ahead(self, number: int) -> None:
        if (ahead := self._ahead()) is not None:
            ahead.forget_ahead(number)

    def settle_ahead(self) -> int:
        ahead = self._ahead()
        return 0 if ahead is None else ahead.settle_ahead()

    def _ahead(self) -> TakesAhead | None:
        present: object = self._present
        return present if isinstance(present, TakesAhead) else None
