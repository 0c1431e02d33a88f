"""Callers without the job's token: refused, slowed down if they go on, and logged without filling the log."""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

FREE_TRIES = 10
"""So many refusals of one address in a minute are answered at once; each further one after a pause."""
MINUTE_S = 60.0
PAUSE_S = 1.0
MOST_PAUSES = 32
"""So many refusals may pause at once: each keeps a thread, and training needs threads too."""
MOST_ADDRESSES = 1024

_log = logging.getLogger(__name__)


@dataclass
class _Address:
    """What one address has done in the minute since `began_at`."""

    began_at: float
    refusals: int = 0


def address_of(peer: str) -> str:
    """The address in what gRPC calls a peer: `ipv4:10.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]") or peer


class Strangers:
    """The addresses that calls without the token came from. Safe to use from many threads."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self.num_refused = 0
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._pauses = threading.BoundedSemaphore(MOST_PAUSES)
        self._is_closed = threading.Event()

    def refused(self, peer: str, why: str) -> None:
        """Note a refusal, and wait for a moment if there were many of this address."""
        number = self._count(address_of(peer), why)
        if number == FREE_TRIES + 1:
            _log.warning(
                "refused %d calls from %s within a minute; what follows is slowed down", FREE_TRIES, address_of(peer)
            )
        if number > FREE_TRIES and self._pauses.acquire(blocking=False):
            try:
                self._is_closed.wait(self._pause_s)
            finally:
                self._pauses.release()

    def note(self, peer: str, why: str) -> None:
        """Note a refusal without a pause."""
        self._count(address_of(peer), why)

    def close(self) -> None:
        """End all pauses."""
        self._is_closed.set()

    def _count(self, address: str, why: str) -> int:
        now = time.monotonic()
        with self._lock:
            found = self._addresses.pop(address, None)
            if found is None or now - found.began_at > MINUTE_S:
                found = _Address(now)
            self._addresses[address] = found  # the latest comes last
            while len(self._addresses) > MOST_ADDRESSES:
                self._addresses.popitem(last=False)
            found.refusals += 1
            self.num_refused += 1
            number = found.refusals
        if number == 1:
            _log.warning("refused a call from %s, which has %s", address, why)
        return number
