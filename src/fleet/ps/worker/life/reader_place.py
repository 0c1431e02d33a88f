"""The place of a reader of data in the script of a worker, so that its next life goes on reading there."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fleet.ps.worker.life.progress import ScriptMoment, ScriptProgress


class Reader(Protocol):
    """Data that is read epoch by epoch.

    One whose batches depend on what has come has `live_state` besides: a position that is told, until it is stored with
    the push of a batch, what that batch was made of.
    """

    def state_dict(self) -> dict[str, Any]:
        """The position of the reader, as JSON."""

    def settings(self) -> Mapping[str, Any]:
        """What of its state says what is read, and not how far."""

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        """Take up a position that a former life had."""


class ReaderPlace:
    """One reader's place in the script of a worker."""

    def __init__(self, progress: ScriptProgress, reader: Reader, number: int) -> None:
        self._progress = progress
        self._reader = weakref.ref(reader)
        self._last: dict[str, Any] = {}
        self.number = number
        self.moment: ScriptMoment | None = None
        """Just before the batch that a loop has in hand, or before the first of several that make one step."""

    def state(self) -> dict[str, Any]:
        """The position of the reader, or its last one if the reader is gone."""
        reader = self._reader()
        if reader is not None:
            self._last = getattr(reader, "live_state", reader.state_dict)()
        return self._last

    def watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the same batches, and note before each where the worker is."""
        try:
            while True:
                membership = self._progress.membership
                if not self._progress.is_ahead and (self.moment is None or self.moment.is_used):
                    if membership is not None:
                        membership.between_steps()
                    self.moment = self._progress.moment({self.number})
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                if self.moment is not None:
                    self.moment.is_handed = True
                if membership is not None:
                    membership.take_part()
                yield batch
        finally:
            self._progress.end_loop(self.moment)
            self.moment = None

    def remember(self) -> None:
        """Keep the position of the reader at the end of a loop: the script may have no use for it any more."""
        self.state()

    def is_over(self, epoch: int) -> bool:
        """Whether a former life has done this epoch; asked when a loop begins."""
        self._find()
        stored = self._progress.stored(self.number)
        if stored is None:
            return False
        if epoch < int(stored["epoch"]) and not self._progress.is_asked:
            self._progress.pass_epoch(self.number, epoch)
            return True
        self._progress.reach(self.number)
        if epoch <= int(stored["epoch"]) and (reader := self._reader()) is not None:
            reader.go_on_at(stored)
        return False

    def asked(self) -> None:
        """Note that the script asks where this reader is; if no loop has begun yet, it will begin there."""
        self._find()
        stored = self._progress.stored(self.number)
        if stored is not None and not self._progress.has_passed(self.number):
            self._progress.data_asked()
            if (reader := self._reader()) is not None:
                reader.go_on_at(stored)

    def _find(self) -> None:
        """Take the place that a former life had in hand, if it read the same data and this reader stands for it."""
        number, reader = self._progress.open_place(), self._reader()
        if number is None or reader is None or (stored := self._progress.stored(number)) is None:
            return
        own = reader.state_dict()
        if own.keys() == stored.keys() and all(stored[name] == own[name] for name in reader.settings()):
            self.number = number

    def end_epoch(self, epoch: int) -> None:
        """Note that a loop has read an epoch to its end."""
        self._progress.note_end(self.number, epoch)
