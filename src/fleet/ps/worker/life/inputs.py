"""What the forward passes of a worker's step have read, on the disk of a durable job in sync mode.

The next life of a worker makes the last step again, for what the script does with its results: the loss in a running
mean, the gradients that a second optimizer had not sent yet. The servers have the worker's update by then and answer
with newer rows and parameters, so it reads those that the former life has read, from here.

Each update of a step is a record: all dense parameters, then the rows of each lookup since the update before. A step
has a file, and two files take turns: a step that was begun and is not known to the servers does not take the place of
the one before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import env
from fleet.errors import UsageError
from fleet.ps.journal.files import write_all
from fleet.ps.journal.records import JournalError, Kind, RecordPart, encode, read
from fleet.ps.worker.calling.outbox import INPUTS

Floats = NDArray[np.float32]


class StepInputs:
    """The files of one worker. Used from the thread that trains."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in INPUTS]
        self._files = [-1, -1]
        self._ends = [0, 0]  # of what a former life has written and this one still needs
        self._turn = 0  # the file of the present step
        self._left: list[list[Floats]] = []  # of the updates that are made again
        self._next_row = 0

    @classmethod
    def of(cls, worker: int) -> StepInputs | None:
        """The inputs of a worker of a durable job; None in any other."""
        folder = env.FLEET_DURABLE.get()
        return None if folder is None else cls(Path(folder) / f"worker-{worker}")

    def keep(self, update: int, dense: torch.Tensor | None, rows: Sequence[torch.Tensor], *, is_new: bool) -> None:
        """Write down what an update was computed from, before it is sent; `is_new`: it is the first of its step."""
        arrays = [_array(torch.empty(0) if dense is None else dense), *map(_array, rows)]
        self._turn ^= is_new
        number = self._turn
        path = self._paths[number]
        try:
            if self._files[number] < 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[number] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.lseek(self._files[number], self._ends[number], os.SEEK_SET)
            if is_new:  # what a longer step has left after this one has other numbers
                os.lseek(self._files[number], 0, os.SEEK_SET)
            write_all(self._files[number], encode(update, Kind.PUSH, [RecordPart(b"", arrays)]))
        except OSError as error:
            raise UsageError(
                f"a worker of a durable job writes down what it computes with, and cannot in {path}: "
                f"{error.strerror or error}; make room on that disk"
            ) from None

    def close(self) -> None:
        """Let go of the files, which stay."""
        for file in self._files:
            if file >= 0:
                os.close(file)
        self._files = [-1, -1]

    def begin_again(self, first: int, last: int) -> bool:
        """Have these updates made again; False if what they were computed from was not written down."""
        for number, path in enumerate(self._paths):
            with suppress(OSError, JournalError):  # there is none, or its worker died while it wrote it
                found = {}
                for record in read(path, memoryview(path.read_bytes())):
                    found[record.lsn] = [np.frombuffer(one, np.float32) for one in record.parts[0].tensors]
                    if record.lsn == last and all(update in found for update in range(first, last + 1)):
                        self._left = [found[update] for update in range(first, last + 1)]
                        self._turn, self._ends[number] = number, record.end
                        return True
        return False

    @property
    def dense(self) -> Floats | None:
        """The dense parameters of the update that is made again; None: none is."""
        return self._left[0][0] if self._left else None

    def give(self, rows: torch.Tensor) -> None:
        """Give the rows of the next lookup the values that they had."""
        self._next_row += 1
        if not self._left or self._next_row >= len(self._left[0]):
            return
        values = self._left[0][self._next_row]
        if values.size == rows.numel():
            with torch.no_grad():
                rows.copy_(torch.from_numpy(values.copy()).view(rows.shape))

    def end_update(self) -> None:
        """Go on to the next update: this one was made again."""
        self._next_row = 0
        del self._left[:1]


def _array(tensor: torch.Tensor) -> Floats:
    found: Floats = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    return found
