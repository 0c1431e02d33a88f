"""Where the script of a worker is: stored with its pushes, and found again by its next life.

A worker of a durable job may be killed at any moment and is started again alone: its script runs from the top, while
the servers have its steps, and the other workers do not begin again. Three things must then go on where they were.

All three are of one moment: just before the batch of the last step that servers know was handed out. In the next life
the script makes that step again, and so does again what comes after it; what servers have of the step is not sent.

Data. Each reader has a place, by the order in which readers are made. In the next life a loop over an epoch that
was done yields nothing, and the loop of the present one begins with that batch. A script that asks where it is, and
begins its loops there, gets no empty loops; if it makes a reader for each epoch, the first over the same data has the
place of the one that was in hand. Data that is the script's own has no place: there the moment is that of the first
lookup for the step, and the script must ask how many steps lie behind it.

Turns. What all workers do together, such as a barrier, is told apart by counting. A script that runs again leaves out
what was inside the loops that are empty now, so counts are noted at the end of each epoch, and stored with each push.

Parts. Whatever else is small and must go on, such as the state of a scheduler, is stored with each push as well.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.errors import CommunicationError, UsageError
from fleet.observe.metrics.steps import StepCount
from fleet.ps.job.patience import is_elastic
from fleet.ps.worker.life.answer_file import AnswerFile
from fleet.ps.worker.life.membership import Membership
from fleet.ps.worker.life.reader_place import Reader, ReaderPlace

log = logging.getLogger(__name__)


class Turns:
    """Counts how often this worker has done each of the things that workers do together."""

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
class ScriptMoment:
    """Where a worker was when it was about to be given a batch."""

    data: dict[str, Any]
    turns: dict[str, int]
    parts: dict[str, Any]
    from_places: set[int] = field(default_factory=set)
    """The readers whose batches are trained on since."""
    is_used: bool = False
    """Whether an optimizer has stepped since."""
    is_handed: bool = False
    """Whether a reader of its own has handed out a batch since."""
    number: int = 0
    """The moment's number among all."""


class ScriptProgress:
    """Where one worker of a durable job is. Used from the thread that trains."""

    def __init__(self, folder: Path) -> None:
        self.turns = Turns()
        self.answers = AnswerFile(folder / "answers")
        self.membership = Membership(self._has_untrained) if is_elastic() else None
        """How this worker leaves before its data is at an end; None where all stay."""
        self.is_asked = False
        """Whether the script has asked where its data is: then its loops begin there."""
        self.is_counted = False
        """Whether the script has asked how many steps lie behind it."""
        self.is_ahead = False
        """Whether a batch is being read ahead of those that are trained on."""
        self.num_redone = 0
        """How many of the updates that a former life has sent this one makes again, without sending them."""
        self.num_steps = 0
        """How many steps lay behind the former life when it began the last one that the servers know."""
        self.num_steps_of_others = 0
        """How many of those other workers made while it had no batch left."""
        self.has_resumed = False
        """Whether a former life has pushed something."""
        self._at_redo: Callable[[], None] = lambda: None
        self._places: list[ReaderPlace] = []
        self._open: list[int] = []  # the readers of the former life that a loop had in hand
        self._trained: set[int] = set()
        self._stored: dict[str, dict[str, Any]] = {}
        self._stored_turns: dict[str, int] = {}
        self._stored_parts: dict[str, Any] = {}
        self._passed: set[int] = set()
        self._parts: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {}
        self._handed: ScriptMoment | None = None
        self._own: ScriptMoment | None = None  # of a batch that is no reader's
        self._present: ScriptMoment | None = None  # of what is being made
        self._present_steps = 0, 0  # behind it: of all, and of those by others
        self._num_updates = 0  # since then
        self._seen: ScriptMoment | None = None  # the last with a lookup behind it
        self._num_moments = 0
        self._has_caught_up = True
        self._owes = False  # whether a loop has ended with batches whose gradients the next step is to have

    def add(self, reader: Reader) -> ReaderPlace:
        """Give a reader its place; all lives of a worker make their readers in the same order."""
        place = ReaderPlace(self, reader, 1 + max((one.number for one in self._places), default=-1))
        self._places.append(place)
        return place

    def open_place(self) -> int | None:
        """The reader that a former life had in hand, if this one has not made it; None: it has, or nobody had one.

        So it is where a script makes a reader for each epoch, and begins at the epoch that was under way.
        """
        if self._has_caught_up or not self.is_asked or any(one.number in self._open for one in self._places):
            return None
        return min(self._open, default=None)

    def add_part(self, name: str, state: Callable[[], Any], restore: Callable[[Any], None]) -> Any:
        """Have something small stored with every push; returns what a former life stored, or None.

        `restore` is called with that when the script has come to where the former life was.
        """
        self._parts[name] = state, restore
        return None if self._has_caught_up else self._stored_parts.get(name)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Inside, a batch is read ahead of those that are trained on: `hand_out` tells when its turn has come."""
        self.is_ahead = True
        try:
            yield
        finally:
            self.is_ahead = False

    def at_redo(self, call: Callable[[], None]) -> None:
        """Have something called when the script comes to the step that it makes again."""
        self._at_redo = call

    def data_asked(self) -> None:
        """Note that the script has asked where its data is."""
        self.is_asked = True

    def count_asked(self) -> None:
        """Note that the script has asked how many steps lie behind it."""
        self.is_counted = True

    @property
    def is_in_loop(self) -> bool:
        """Whether a loop has a batch in hand that is trained on: what is done then, the next life does not repeat."""
        return self._handed is not None or any(
            place.moment is not None and place.number in self._trained for place in self._places
        )

    # What goes with a push.

    def data(self) -> dict[str, Any]:
        """Where each reader is, by the number of its place."""
        return {str(place.number): place.state() for place in self._places}

    def moment(self, from_places: set[int], data: dict[str, Any] | None = None) -> ScriptMoment:
        """Where this worker is now; `data`, if given, is where its readers are."""
        parts = {name: state() for name, (state, _) in self._parts.items()}
        self._num_moments += 1
        data = self.data() if data is None else data
        return ScriptMoment(data, self.turns.state(), parts, from_places, number=self._num_moments)

    def hand_out(self, data: dict[str, Any] | None, from_places: set[int] | None = None) -> None:
        """Note that a batch is handed out, with where data was before it was read ahead; None: the loop is over."""
        if data is None:
            self._handed = None
        elif self._handed is None or self._handed.is_used:
            self._handed = self.moment(from_places or set(), data)
        else:
            self._handed.from_places |= from_places or set()

    def begin_forward(self, count: StepCount) -> bool:
        """Note that rows are looked up to be trained; whether for the first time since the moment of the batch.

        If the batch is no reader's, the moment is now.
        """
        if not (count.is_in_loop or self._fresh() or (self._own is not None and not self._own.is_used)):
            self._go_on_alone()
            self._own = self.moment(set())
        seen, self._seen = self._seen, self._moment_now() or self._seen
        return seen is not self._seen

    def _moment_now(self) -> ScriptMoment | None:
        """The moment of the batches on which no optimizer has stepped yet."""
        own = self._own if self._own is not None and not self._own.is_used else None
        return min(self._fresh(), key=lambda one: one.number, default=own)

    def capture(self, num_steps: int, num_of_others: int, *, is_new: bool) -> bytes:
        """Where this worker was when what it makes now began, behind `num_steps` others; `is_new`: it begins now.

        `num_of_others`: how many of those it has not made itself.
        """
        self._go_on_alone()
        fresh, self._owes = self._fresh(), False
        if is_new or self._present is None:
            self._present = self._moment_now() or self.moment(set())
            self._num_updates, self._present_steps = 0, (num_steps, num_of_others)
        for one in fresh:
            one.is_used = True
            self._trained |= one.from_places
        if self._own is not None:
            self._own.is_used = True
        self._num_updates += 1
        data = {name: state for name, state in self._present.data.items() if int(name) in self._trained}
        stored = {
            "data": data | self._stored,
            "open": sorted(self._in_hand()),
            "turns": self._present.turns,
            "parts": self._present.parts,
            "redone": self._num_updates,
            "step": self._present_steps[0],
            "of_others": self._present_steps[1],
        }
        return json.dumps(stored, separators=(",", ":")).encode()

    def _in_hand(self) -> set[int]:
        """The readers over which loops are under way."""
        handed = set() if self._handed is None else self._handed.from_places
        return handed | {place.number for place in self._places if place.moment is not None}

    def _fresh(self) -> list[ScriptMoment]:
        """The moments of batches in hand on which no optimizer has stepped yet.

        Not those of a loop around the one that trains, or of an iterator that somebody has left half read.
        """
        if self._handed is not None:
            return [] if self._handed.is_used else [self._handed]
        return [place.moment for place in self._places if place.moment is not None and not place.moment.is_used]

    def end_loop(self, moment: ScriptMoment | None) -> None:
        """Note that a loop over a reader has ended; `moment`: before the last batches that it handed out."""
        self._owes |= moment is not None and moment.is_handed and not moment.is_used

    def _has_untrained(self) -> bool:
        """Whether no optimizer has stepped on some batch yet, as where gradients add up over several."""
        return self._owes or any(one.is_handed for one in self._fresh())

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
        """Take up what a former life stored with its last push that servers took; empty: there was none."""
        if not position:
            return
        try:
            stored = json.loads(position)
            self._stored, self._stored_turns = dict(stored["data"]), dict(stored["turns"])
            self._open = list(stored["open"])
            self._stored_parts, self.num_redone = dict(stored["parts"]), int(stored["redone"])
            self.num_steps, self.num_steps_of_others = int(stored["step"]), int(stored["of_others"])
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
        """Where a reader is to go on; None if it has, or had nothing stored."""
        return self._stored.get(str(number))

    def has_passed(self, number: int) -> bool:
        """Whether a loop over a reader was led past an epoch that was done."""
        return number in self._passed

    def pass_epoch(self, number: int, epoch: int) -> None:
        """Lead a loop past an epoch that was done; turns go on from its end."""
        if self.is_counted and not self._passed:
            log.warning(
                "this worker was started again behind %d steps, and its script asked for them before its loops: those "
                "over the %d epochs of data that are done are empty, so a script that also begins behind them, as "
                "range(fleet.steps_done() // n, N) does, trains %d epochs less; let it begin at data.epoch",
                self.num_steps,
                num_done := int(self._stored[str(number)]["epoch"]),
                num_done,
            )
        self._passed.add(number)
        self.turns.go_to(self.answers.get(f"end/{number}/{epoch}") or {})

    def reach(self, number: int) -> None:
        """Note that a reader goes on where it was; so do turns."""
        del self._stored[str(number)]
        self._catch_up()

    def _go_on_alone(self) -> None:
        """Go on with data of the script's own; UsageError if the script has not asked where to begin."""
        if not (self._has_caught_up or self.is_asked or self.is_counted or self._passed):
            raise UsageError(
                f"this worker was started again: {self.num_steps} steps lie behind it, and its script begins to train "
                "at step 0, without asking; loop over fleet.steps(...) or fleet.data, or begin at fleet.steps_done()"
            )
        self._catch_up()

    def _catch_up(self) -> None:
        """Go on with everything but the data where a former life was."""
        if self._has_caught_up:
            return
        self._has_caught_up = True
        self.turns.go_to(self._stored_turns)
        for name, (_, restore) in self._parts.items():
            if name in self._stored_parts:
                restore(self._stored_parts[name])
        self._at_redo()

    def note_end(self, number: int, epoch: int) -> None:
        """Note the turns at the end of an epoch that a reader has read."""
        if number in self._trained:
            self.answers.put(f"end/{number}/{epoch}", self.turns.state())
