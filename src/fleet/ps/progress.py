"""Where the script of a worker is: stored with its pushes, and found again by its next life.

A worker of a durable job may be killed at any moment and is started again alone: its script runs from the top, while
the servers have its steps, and the other workers do not begin again. Three things must then go on where they were.

Data. Each reader has a place here, by the order in which readers are made. With a push goes where its data was before
the batch of that push was handed out. In the next life a loop over an epoch that was done yields nothing, and the loop
of the present one begins with that batch: the script does again what comes after its step, and the step itself is not
sent. A script that asks where it is, and begins its loops there, gets no empty loops.

Turns. What all workers do together, such as a barrier, is told apart by counting. A script that runs again leaves out
what was inside the loops that are empty now, so counts are noted at the end of each epoch, and stored with each push.

Parts. Whatever else is small and must go on, such as the state of a scheduler, is stored with each push as well.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fleet.errors import CommunicationError, UsageError
from fleet.ps.answers import Answers


class Reader(Protocol):
    """What has a place: data that is read epoch by epoch."""

    def state_dict(self) -> dict[str, Any]:
        """Its position, as JSON."""

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        """Take up a position that a former life had."""


class Turns:
    """How often this worker has done each of the things that workers do together."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> int:
        """The number of this turn, from 1."""
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    def num_taken(self, name: str) -> int:
        """How many turns there were."""
        return self._counts.get(name, 0)

    def state(self) -> dict[str, int]:
        """The counts, to be stored."""
        return dict(self._counts)

    def go_to(self, state: Mapping[str, int]) -> None:
        """Count on from there; no count goes back."""
        for name, count in state.items():
            self._counts[name] = max(self._counts.get(name, 0), int(count))


@dataclass(eq=False)
class Moment:
    """Where a worker was when it was about to be given a batch."""

    data: dict[str, Any]
    turns: dict[str, int]
    parts: dict[str, Any]
    from_places: set[int] = field(default_factory=set)
    """Which readers have given what is trained on since."""
    num_steps: int = 0
    """Steps that were made since."""
    number: int = 0
    """Of all moments."""


class Place:
    """One reader's place in the script of a worker."""

    def __init__(self, progress: Progress, reader: Reader, number: int) -> None:
        self._progress = progress
        self._reader = weakref.ref(reader)
        self._last: dict[str, Any] = {}
        self.number = number
        self.moment: Moment | None = None
        """Before the batch, or the first of several that make one step, that a loop has in hand."""

    def state(self) -> dict[str, Any]:
        """The reader's, or its last if it is gone."""
        reader = self._reader()
        if reader is not None:
            self._last = reader.state_dict()
        return self._last

    def watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches; before each it is noted where the worker is."""
        try:
            while True:
                if not self._progress.is_ahead and (self.moment is None or self.moment.num_steps):
                    self.moment = self._progress.moment({self.number})
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                yield batch
        finally:
            self.moment = None

    def is_over(self, epoch: int) -> bool:
        """Asked when a loop begins: whether a former life has done this epoch."""
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
        """The script wants to know where this reader is; if no loop has begun yet, it will begin there."""
        stored = self._progress.stored(self.number)
        if stored is not None and not self._progress.has_passed(self.number):
            self._progress.is_asked = True
            if (reader := self._reader()) is not None:
                reader.go_on_at(stored)

    def end_epoch(self, epoch: int) -> None:
        """A loop has read an epoch to its end."""
        self._progress.note_end(self.number, epoch)


class Progress:
    """Where one worker of a durable job is. Used from the thread that trains."""

    def __init__(self, folder: Path) -> None:
        self.turns = Turns()
        self.answers = Answers(folder / "answers")
        self.is_asked = False
        """Whether the script has asked where it is: then it begins there."""
        self.is_ahead = False
        """Whether batches are read ahead of those that are trained on; `hand_out` tells which those are."""
        self.num_redone = 0
        """How many of the steps that a former life has made this one makes again, without sending them."""
        self.has_resumed = False
        """Whether a former life has pushed something."""
        self._places: list[Place] = []
        self._trained: set[int] = set()
        self._stored: dict[str, dict[str, Any]] = {}
        self._stored_turns: dict[str, int] = {}
        self._stored_parts: dict[str, Any] = {}
        self._passed: set[int] = set()
        self._parts: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {}
        self._handed: Moment | None = None
        self._num_moments = 0
        self._has_caught_up = True

    def add(self, reader: Reader) -> Place:
        """Give a reader its place; all lives of a worker make their readers in the same order."""
        place = Place(self, reader, len(self._places))
        self._places.append(place)
        return place

    def add_part(self, name: str, state: Callable[[], Any], restore: Callable[[Any], None]) -> Any:
        """Have something small stored with every push; returns what a former life stored, or None.

        `restore` is called with that when the script has come to where the former life was.
        """
        self._parts[name] = state, restore
        return None if self._has_caught_up else self._stored_parts.get(name)

    @property
    def is_in_loop(self) -> bool:
        """Whether a batch of what is trained on is in hand: what is done now, the next life need not do again."""
        return self._handed is not None or any(
            place.moment is not None and place.number in self._trained for place in self._places
        )

    # What goes with a push.

    def data(self) -> dict[str, Any]:
        """Where each reader is."""
        return {str(place.number): place.state() for place in self._places}

    def moment(self, from_places: set[int], data: dict[str, Any] | None = None) -> Moment:
        """Where this worker is, but for its data if it is told."""
        parts = {name: state() for name, (state, _) in self._parts.items()}
        self._num_moments += 1
        data = self.data() if data is None else data
        return Moment(data, self.turns.state(), parts, from_places, number=self._num_moments)

    def hand_out(self, data: dict[str, Any] | None, from_places: set[int] | None = None) -> None:
        """A batch that was read ahead is handed out: where data was before it was read. None: no more are."""
        if data is None:
            self._handed = None
        elif self._handed is None or self._handed.num_steps:
            self._handed = self.moment(from_places or set(), data)
        else:
            self._handed.from_places |= from_places or set()

    def capture(self) -> bytes:
        """Where this worker is, for a step that is made now."""
        self._catch_up()  # if the data is the script's own
        found = [place.moment for place in self._places if place.moment is not None]
        found = [self._handed] if self._handed is not None else found
        # Not those of a loop around the one that trains, or of an iterator that somebody has left half read.
        least = min((one.num_steps for one in found), default=0)
        found = [one for one in found if one.num_steps == least]
        for one in found:
            one.num_steps += 1
            self._trained |= one.from_places
        first = min(found, key=lambda one: one.number) if found else self.moment(set())
        data = {name: state for name, state in first.data.items() if int(name) in self._trained}
        stored = {
            "data": data | self._stored,
            "turns": first.turns,
            "parts": first.parts,
            "redone": first.num_steps,
        }
        return json.dumps(stored, separators=(",", ":")).encode()

    # What a former life has left.

    def check_run(self, run: int) -> None:
        """UsageError if what a former life was told belongs to another run of the job than the servers' state."""
        known = self.answers.get("run")
        if known is None:
            self.answers.put("run", run)
        elif known != run:
            raise UsageError(
                f"{self.answers.path} is of another run of the job than the servers' state; delete the folder of that "
                "run (--durable), or begin in another one"
            )

    def resume(self, position: bytes) -> None:
        """Take up what came with the last push of a former life that was taken; empty if there was none."""
        if not position:
            return
        try:
            stored = json.loads(position)
            self._stored, self._stored_turns = dict(stored["data"]), dict(stored["turns"])
            self._stored_parts, self.num_redone = dict(stored["parts"]), int(stored["redone"])
            self._trained = {int(name) for name in self._stored}
        except (ValueError, KeyError, TypeError) as error:
            raise CommunicationError(
                f"server 0 has a position of this worker that cannot be read ({error!r}); start the job again"
            ) from error
        self.has_resumed, self._has_caught_up = True, False

    def is_past(self, name: str, turn: int) -> bool:
        """Whether a former life had taken this turn before the last step that servers have of it."""
        return turn <= self._stored_turns.get(name, 0)

    def stored(self, number: int) -> dict[str, Any] | None:
        """The state of a reader that is still to be gone on at."""
        return self._stored.get(str(number))

    def has_passed(self, number: int) -> bool:
        """Whether a loop over a reader was led past an epoch that was done."""
        return number in self._passed

    def pass_epoch(self, number: int, epoch: int) -> None:
        """A loop yields nothing for an epoch that was done; turns are those of its end."""
        self._passed.add(number)
        self.turns.go_to(self.answers.get(f"end/{number}/{epoch}") or {})

    def reach(self, number: int) -> None:
        """A reader goes on where it was, and so do turns."""
        del self._stored[str(number)]
        self._catch_up()

    def _catch_up(self) -> None:
        """Go on from where a former life was with all but the data."""
        if self._has_caught_up:
            return
        self._has_caught_up = True
        self.turns.go_to(self._stored_turns)
        for name, (_, restore) in self._parts.items():
            if name in self._stored_parts:
                restore(self._stored_parts[name])

    def note_end(self, number: int, epoch: int) -> None:
        """An epoch of a reader was read to its end."""
        if number in self._trained:
            self.answers.put(f"end/{number}/{epoch}", self.turns.state())
