"""The names of what one process and fleetrun leave for each other; FLEET_NOTE_FILE tells a process its own.

    LOG_DIR/workerlog.0                     its log: for people, no code reads it
    LOG_DIR/workerlog.0.note                FLEET_NOTE_FILE itself, by which the others are named; never written
    LOG_DIR/workerlog.0.note.4711           process 4711 has begun to end         ending
    LOG_DIR/workerlog.0.note.unstopped      it owes its servers a stop_worker()   joining
    LOG_DIR/workerlog.0.note.waits          what it waits for now                 wait_notes
    LOG_DIR/serverlog.0.note.serving        it serves                             serving
    LOG_DIR/serverlog.0.note.copy           how far it is, as a copy of a server  copy_notes
    LOG_DIR/serverlog.0.note.copyless       it cannot reach its copy              copy_notes
    LOG_DIR/workerlog.0.chaos, .acks        under --chaos, of all its lives       fleet_tools.chaos.notes
    LOG_DIR/observe/workerlog.0.*           its figures and events                figures

What begins with the name of the note is of one life: fleetrun removes it before a process starts and after it ended.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from fleet import env

_ENDING = ".note"


@dataclass(frozen=True)
class ProcessFiles:
    """The files of the process whose FLEET_NOTE_FILE is `note`."""

    note: Path

    @classmethod
    def own(cls) -> ProcessFiles | None:
        """The files of this process; None where no fleetrun has started it."""
        note = env.FLEET_NOTE_FILE.get()
        return None if note is None else cls(Path(note))

    @classmethod
    def beside(cls, log: Path) -> ProcessFiles:
        """The files of the process that writes this log."""
        return cls(log.with_name(f"{log.name}{_ENDING}").absolute())

    @property
    def log(self) -> Path:
        """The log, whose name the others are made of."""
        return self.note.with_name(self.note.name.removesuffix(_ENDING))

    def end(self, pid: int) -> Path:
        """Where a process says that it has begun to end; children of its own inherit the variable, hence the pid."""
        return self._named(str(pid))

    @property
    def unstopped(self) -> Path:
        """There from the joining of a worker to its leaving."""
        return self._named("unstopped")

    @property
    def waits(self) -> Path:
        """What the process waits for."""
        return self._named("waits")

    @property
    def serving(self) -> Path:
        """There once a server serves."""
        return self._named("serving")

    @property
    def copy(self) -> Path:
        """How far a copy of a server is."""
        return self._named("copy")

    @property
    def copyless(self) -> Path:
        """There once a server has waited in vain for its copy."""
        return self._named("copyless")

    def remove(self) -> None:
        """Remove what one life has left, its children's too; what is of all lives stays."""
        for path in self.note.parent.glob(f"{self.note.name}.*"):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _named(self, ending: str) -> Path:
        return self.note.with_name(f"{self.note.name}.{ending}")
