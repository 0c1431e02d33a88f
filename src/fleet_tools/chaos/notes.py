"""What a process of a job under `--chaos` notes for the report of fleetrun: beside its log, and safe from kill -9.

Rare events are lines of JSON. Each push that a server has acknowledged is a record of fixed size, written before
anybody in the worker hears of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fleet import env
from fleet.jobfiles.process_files import ProcessFiles

_ACK = struct.Struct("<dIQQ")


class Ack(NamedTuple):
    """A push that a server has acknowledged; `time` in seconds since 1970."""

    time: float
    server: int
    incarnation: int
    sequence: int


@dataclass(frozen=True)
class ChaosNotes:
    """What one process has noted in all its lives."""

    events: Path
    acks: Path

    @classmethod
    def of(cls, files: ProcessFiles) -> ChaosNotes:
        """The notes of a process, beside its log."""
        return cls(*(files.log.with_name(f"{files.log.name}.{ending}") for ending in ("chaos", "acks")))

    def remove(self) -> None:
        """Forget what is there."""
        for path in (self.events, self.acks):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def read_events(self) -> list[dict[str, Any]]:
        """Every event so far, in the order they were noted."""
        try:
            with open(self.events) as file:
                lines = file.read().split("\n")
        except OSError:
            return []
        events = []
        for line in lines[:-1]:
            with contextlib.suppress(ValueError):  # a part of one, from a full disk
                events.append(json.loads(line))
        return events

    def read_acks(self) -> list[Ack]:
        """Every acknowledgement so far; a push that was acknowledged twice is there twice."""
        try:
            with open(self.acks, "rb") as file:
                data = file.read()
        except OSError:
            return []
        return [Ack(*fields) for fields in _ACK.iter_unpack(data[: len(data) // _ACK.size * _ACK.size])]


def own_notes() -> ChaosNotes | None:
    """The notes of this process; None where nobody would read them."""
    files = ProcessFiles.own()
    return None if files is None or env.FLEET_CHAOS.text() is None else ChaosNotes.of(files)


def note(event: str, **fields: object) -> None:
    """Note an event of this process; nothing happens outside a job under chaos."""
    notes = own_notes()
    if notes is None:
        return
    line = json.dumps({"time": time.time(), "pid": os.getpid(), "event": event, **fields})
    _append(notes.events, f"{line}\n".encode())


def note_ack(server: int, incarnation: int, sequence: int) -> None:
    """Note that a server has acknowledged a push."""
    notes = own_notes()
    if notes is not None:
        _append(notes.acks, _ACK.pack(time.time(), server, incarnation, sequence))


def _append(path: Path, data: bytes) -> None:
    """In one write, so that a kill leaves all of it or nothing."""
    with contextlib.suppress(OSError):  # a full disk: the report will miss it, and say so
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, data)
        finally:
            os.close(file)
