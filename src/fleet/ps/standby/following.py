"""A copy's side: asks its server for what it lacks, writes that down, says so, and makes the changes after it.

One thread asks and writes, another makes the changes: the server, which may wait, waits for the first alone.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fleet import _native
from fleet.errors import FleetError
from fleet.jobfiles.copy_notes import note_copy
from fleet.ps.durable.durability import Durability
from fleet.ps.durable.recovery import Positions, Replay, restore
from fleet.ps.journal.files import UNFINISHED_SUFFIX, sync_folder
from fleet.ps.journal.records import read, whole_records
from fleet.ps.proto import ps_pb2
from fleet.ps.standby.standing import Standing
from fleet.ps.wire.transport import Transport

if TYPE_CHECKING:
    from fleet.ps.steps.core import Core

WAIT_S = 0.3
"""How long a server keeps a call for which it has nothing: a copy gives so often a sign of life."""
LIMIT_S = 10.0
"""How long a call may take."""
PAUSE_S = 0.1
NOTE_S = 1.0
"""How often fleetrun is told how far the copy is, where nothing else has changed."""
LOW_PRIORITY = 10
MOST_AHEAD = 32
"""How many answers may wait to be made changes of."""

_log = logging.getLogger(__name__)


class Following:
    """A copy that follows its server, until it is stopped."""

    def __init__(
        self,
        core: Core,
        durability: Durability,
        standing: Standing,
        connect: Callable[[str], Transport],
    ) -> None:
        """`connect` makes what reaches a server, by its endpoint."""
        self._core, self._durability, self._standing = core, durability, standing
        self._connect = connect
        self._name = secrets.randbits(63) + 1
        self._is_stopped = threading.Event()
        self._transport: Transport | None = None
        self._lsn = durability.journal.lsn
        """The last record that is written down here."""
        self._segment, self._at = durability.journal.end
        self._rest = b""
        """The beginning of a record whose end has not come."""
        self._replay = Replay(core.state, Positions([]))
        self._after = self.position = self._lsn
        """`position`: the last record whose change is made."""
        self._batches: queue.Queue[memoryview | None] = queue.Queue(MOST_AHEAD)
        self._failure = "" if self._segment or not self._lsn else "it was ended while it was filled"
        """Why the changes cannot be made here; the copy then begins anew."""
        self._was_whole = bool(self._segment) or (standing.is_sync and standing.is_listed)
        """Whether the server has said so since this copy was filled; one that comes back goes by its disk.

        A copy that is listed when it begins is as old as its server, which has acknowledged nothing without it.
        """
        self._said = (0, False, 0.0)
        self._num_threads = _native.num_threads()
        self._asking = threading.Thread(target=self._ask, name="fleet-follow", daemon=True)
        self._making = threading.Thread(target=self._make, name="fleet-replay", daemon=True)
        durability.position, durability.fill_again = lambda: self.position, self._fail
        for thread in (self._asking, self._making):
            thread.start()

    def stop(self) -> None:
        """Follow no longer; on return all that is written down is made, and nothing more will be."""
        self._is_stopped.set()
        if (transport := self._transport) is not None:
            transport.close()
        self._asking.join()
        self._batches.put(None)
        self._making.join()
        _native.set_threads(self._num_threads)

    @property
    def failure(self) -> str:
        """Why this copy cannot take its server's place; empty: it can."""
        return self._failure or ("" if self._was_whole else "it was being filled")

    def _fail(self, why: str) -> None:
        self._failure = why

    # Asking.

    def _ask(self) -> None:
        why = ""
        while not self._is_stopped.is_set():
            try:
                self._follow()
            except Exception as error:  # of any kind: it is tried again
                if str(error) != why and not self._is_stopped.is_set():
                    why = str(error)
                    _log.warning("a copy cannot follow server %d: %s", self._standing.server, error)
                self._is_stopped.wait(PAUSE_S)

    def _follow(self) -> None:
        endpoint = self._standing.term.servers[self._standing.server]
        self._transport = transport = self._connect(endpoint)
        try:
            while not self._is_stopped.is_set() and self._standing.term.servers[self._standing.server] == endpoint:
                if self._failure:
                    self._begin_anew(self._failure)
                if not self._segment:
                    self._fill()
                reply, tensors = self._call(
                    lsn=self._lsn, segment=self._segment, at=self._at + len(self._rest), timeout_ms=int(WAIT_S * 1000)
                )
                if reply.lost:
                    self._begin_anew(reply.lost)
                    continue
                if tensors and len(tensors[0]) and not self._take(memoryview(tensors[0]).cast("B")):
                    self._begin_anew("a checkpoint was loaded")
                    continue
                if reply.segment > self._lsn + 1:
                    self._begin_anew("a file of its server's journal is gone")
                    continue
                if reply.segment:
                    self._segment, self._at, self._rest = reply.segment, 0, b""
                self._tell(reply)
        finally:
            transport.close()

    def _call(self, **fields: Any) -> tuple[Any, Any]:
        assert self._transport is not None
        caller = ps_pb2.Caller(term=self._standing.number)
        header = ps_pb2.FollowRequest.Header(caller=caller, server=self._standing.server, copy=self._name, **fields)
        return self._transport.call("Follow", header, (), LIMIT_S).result(LIMIT_S + 1.0)

    def _take(self, data: memoryview) -> bool:
        """Write down the whole records of what has come; False before one from which on the next snapshot is needed."""
        data = memoryview(self._rest + data) if self._rest else data
        end, last, is_replaced = whole_records(data, self._after)
        if end:
            self._durability.receive(self._segment, data[:end], last)
            self._at, self._lsn = self._at + end, max(self._lsn, last)
            self._batches.put(data[:end])
        self._rest = bytes(data[end:])
        return not is_replaced

    def _tell(self, reply: Any) -> None:
        self._was_whole = self._was_whole or reply.is_whole
        term, is_whole, at = self._said
        now = time.monotonic()
        if (term, is_whole) != (reply.term, reply.is_whole) or now - at >= NOTE_S:
            self._said = reply.term, reply.is_whole, now
            lag = max(0, reply.lsn - self._lsn)
            note_copy(self._standing.server, reply.term, is_whole=reply.is_whole, lsn=self._lsn, lag=lag)

    # Filling.

    def _begin_anew(self, why: str) -> None:
        """Forget everything, on the disk too."""
        _log.info("the copy of server %d begins anew: %s", self._standing.server, why)
        note_copy(self._standing.server, self._standing.number, is_whole=False, lsn=0, lag=0)
        self._batches.join()
        with self._durability.undisturbed():
            self._durability.begin_anew()
            self._core.begin_anew()
        self._segment, self._at, self._lsn, self._rest, self._failure = 0, 0, 0, b"", ""
        self._was_whole, self._said = False, (0, False, 0.0)

    def _fill(self) -> None:
        """Take the server's newest snapshot, if it has one, and begin with the segment behind it."""
        began_at = time.monotonic()
        reply, _ = self._call(is_empty=True)
        folder, core = self._durability.folder, self._core
        for one in reply.files:
            self._fetch(one.name, one.size)
        after, positions = 0, Positions([])
        if reply.files:
            path = folder / reply.files[-1].name
            path.with_name(path.name + UNFINISHED_SUFFIX).replace(path)
            sync_folder(folder)
            with core.gate.open():
                after, positions = restore(core.state, path)
        self._replay = Replay(core.state, positions)
        self._segment, self._at, self._rest = reply.segment, 0, b""
        self._after = self.position = self._lsn = after
        size = sum(one.size for one in reply.files)
        took_s = time.monotonic() - began_at
        _log.info("copied a snapshot of %d MB of server %d in %.1f s", size >> 20, self._standing.server, took_s)

    def _fetch(self, name: str, size: int) -> None:
        """Fetch a file of the snapshot; the last of them gets its name when it is whole."""
        path = self._durability.folder / name
        path = path.with_name(path.name + UNFINISHED_SUFFIX) if path.parent == self._durability.folder else path
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            while file.tell() < size:
                reply, tensors = self._call(file=name, at=file.tell())
                if reply.lost or not tensors or not len(tensors[0]):
                    shutil.rmtree(path.parent, ignore_errors=True) if path.parent != self._durability.folder else None
                    raise FleetError(f"{name}: {reply.lost or 'it ends before its end'}")
                file.write(tensors[0])
            file.flush()
            os.fsync(file.fileno())

    # Making the changes.

    def _make(self) -> None:
        with suppress(OSError):  # it is in nobody's way: the server waits for the other thread alone
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
        while (batch := self._batches.get()) is not None:
            try:
                if not self._failure:
                    self._make_all(batch)
            except Exception as error:  # of any kind: the copy begins anew
                self._failure = str(error) or repr(error)
            finally:
                self._batches.task_done()

    def _make_all(self, batch: memoryview) -> None:
        for record in read(self._durability.folder, batch):
            if record.lsn <= self._after:
                continue
            if (num_threads := _native.num_threads()) > 1:  # a declaration chooses anew; others of this machine train
                self._num_threads = num_threads
                _native.set_threads(1)
            with self._core.gate.open():
                self._replay.take(record)
                self.position = record.lsn
