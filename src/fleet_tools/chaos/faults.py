"""Faults that a process does to itself: a worker harms its calls (`faulty_transport`), a server its journal.

`fleet.ps.wire.faults` asks for them where `fleetrun --chaos` has set FLEET_CHAOS.
"""

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Sequence

from fleet import env
from fleet.ps.wire.transport import Transport
from fleet_tools.chaos.faulty_transport import FaultyTransport
from fleet_tools.chaos.notes import note, own_notes
from fleet_tools.chaos.spec import Chaos, DiskFull, TornWrite


def with_faults(transports: Sequence[Transport]) -> Sequence[Transport]:
    """The transports to all servers, by index; under chaos each loses, repeats and delays calls, and counts pushes."""
    faults = _own_chaos().call_faults
    return [
        FaultyTransport(inner, server, faults, generator(f"calls of server {server}"))
        for server, inner in enumerate(transports)
    ]


def with_faults_of_copy(transport: Transport, server: int) -> Transport:
    """The transport by which a copy follows its server, likewise."""
    faults = _own_chaos().call_faults
    return FaultyTransport(transport, server, faults, generator(f"copy of server {server}")) if faults else transport


def of_writes() -> Callable[[int], int | None] | None:
    """What a journal asks before each write; None where every write shall succeed."""
    faults = _own_chaos().disk_faults
    return DiskFaults(faults, env.FLEET_CHAOS_BEGAN.get() or time.time(), generator("disk")) if faults else None


def generator(what: str) -> random.Random:
    """A random generator for one kind of choice in one life of this process."""
    return random.Random(f"{env.FLEET_CHAOS_SEED.get() or '0'}, life {env.FLEET_LIFE.get() or 0}, {what}")


class DiskFaults:
    """When the disk is full, and which writes are torn. Safe to use from many threads."""

    def __init__(self, faults: Sequence[DiskFull | TornWrite], began_at: float, rng: random.Random) -> None:
        self._full = [one for one in faults if isinstance(one, DiskFull)]
        self._torn = [one for one in faults if isinstance(one, TornWrite)]
        self._began_at = began_at
        self._rng = rng
        self._lock = threading.Lock()
        self._noted: set[DiskFull] = set()
        # What an earlier life of this process has done is not done again.
        notes = own_notes()
        done = [] if notes is None else [event for event in notes.read_events() if event["event"] == "torn-write"]
        self._num_done = {one: sum(event["clause"] == str(one) for event in done) for one in self._torn}

    def __call__(self, size: int) -> int | None:
        """How many of `size` bytes to write before the process ends; None: all. OSError while the disk is full."""
        self._check()
        return self._torn_at(size)

    def _check(self) -> None:
        now_s = time.time() - self._began_at
        for one in self._full:
            if one.at_s <= now_s < one.at_s + one.for_s:
                with self._lock:
                    if one not in self._noted:
                        self._noted.add(one)
                        note("disk-full", clause=str(one))
                raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (by --chaos, {one})")

    def _torn_at(self, size: int) -> int | None:
        now_s = time.time() - self._began_at
        with self._lock:
            for one in self._torn:
                if one.when.num_due(now_s) > self._num_done[one]:
                    written = self._rng.randrange(size) if size else 0
                    # Faults that were due while nobody wrote count as one.
                    for _ in range(one.when.num_due(now_s) - self._num_done[one]):
                        note("torn-write", clause=str(one), written=written, size=size)
                    self._num_done[one] = one.when.num_due(now_s)
                    return written
        return None


def _own_chaos() -> Chaos:
    return Chaos.parse(env.FLEET_CHAOS.require("faults are its business"), env.FLEET_CHAOS.name)
