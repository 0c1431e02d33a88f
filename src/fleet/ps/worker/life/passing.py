"""Workers of a synchronous job that run out of batches before the others do: they pass until nobody has one left.

A step waits for a push of every worker. One that has no batch left takes part in it with a pass, which has no gradients
and does not count in its mean. A step that has passes only changes nothing: everybody knows then that the epoch is
over, tells the others how many steps it has made, counts on from the most of them, and goes on. So it costs one empty
step and one meeting for an epoch, and nothing for a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.parts.contract import Done

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.modes.sync import Sync

TURN = "pass"
"""The name by which ends of epochs are counted."""


class Trained(NamedTuple):
    """How much a worker has trained so far."""

    num_updates: int
    num_lookups: int
    """How often rows were looked up to be trained: also where gradients of several batches make one step."""


class Passing:
    """What one worker does when a loop over its data ends. Used from the thread that trains.

    Whoever has trained in a loop passes at its end. One that read batches and trained on none does not, for the others
    will not either: it has evaluated. One that had no batch at all cannot tell, and passes.
    """

    def __init__(
        self,
        client: Client,
        policy: Sync,
        done: Done,
        progress: ScriptProgress | None,
        before_pass: Callable[[], None],
        most_steps: Callable[[str, int, Sequence[int]], int],
    ) -> None:
        """`most_steps`: told the name of an end, this worker's steps and who is there, the most that anybody has."""
        self._is_ahead = False
        self._client, self._policy, self._done = client, policy, done
        self._progress = progress
        self._before_pass, self._most_steps = before_pass, most_steps
        self._owed: Callable[[], None] | None = None

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Inside, a batch is read ahead of those that are trained on: if data ends here, its loop ends later."""
        self._is_ahead = True
        try:
            yield
        finally:
            self._is_ahead = False

    def trained(self) -> Trained:
        """How much was trained so far, for the loop that begins now."""
        return Trained(self._done.num_updates, self._done.num_lookups)

    def end_loop(self, before: Trained, *, is_sure: bool, then: Callable[[], None]) -> None:
        """End a loop that has read its data to the end; `then` is called when it is over for all.

        `before` is what was trained when it began. `is_sure`: pass even if nothing was trained since, as others may.
        """

        def end() -> None:
            if is_sure or self.trained() != before:
                self._pass()
            then()

        if self._is_ahead:
            self._owed = end
        else:
            end()

    def others_pass(self) -> bool:
        """Whether some worker had no batch left in this worker's last step: what all do together would wait for it.

        The next life of a worker, which comes to that step again, is told the same.
        """
        self._policy.flush()
        client, progress = self._client, self._progress
        found = bool(client.passed) and client.worker not in client.passed
        if progress is None:
            return found
        name = f"others pass/{self._done.num_updates}/{progress.turns.num_taken(TURN)}"
        if found and name not in progress.answers:
            progress.answers.put(name, True)
        return name in progress.answers

    def settle(self) -> None:
        """End the loop if its data has ended: what was read ahead has been trained on."""
        owed, self._owed = self._owed, None
        if owed is not None:
            owed()

    def forget(self) -> None:
        """Owe nothing at the end of the loop: it was left early."""
        self._owed = None

    def _pass(self) -> None:
        """Take part in the others' steps until one has passes only.

        In a durable job ends are counted as everything is that workers do together: one that a former life of this
        worker has been at is not waited for again.
        """
        client, progress = self._client, self._progress
        number = client.num_ended + 1 if progress is None else progress.turns.take(TURN)
        num_passes = 0
        while client.num_ended < number:
            self._before_pass()
            self._policy.pass_on(self._done.num_updates)
            self._done.num_steps += 1
            num_passes += 1
        self._done.count.follow(self._most_steps(f"{TURN}/{number}", self._done.count.num, client.passed))
        client.forget_passed()
        if num_passes > 1:  # the others have trained meanwhile
            self._policy.refresh(is_exact=False)  # as the others have them
