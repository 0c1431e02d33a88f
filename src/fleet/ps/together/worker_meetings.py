"""A worker's side of meetings: it asks server 0 what all have said, or who did not come."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from fleet.errors import CommunicationError, DeadlineError, NotSupportedError
from fleet.observe.waits.waiting import Awaited, LongWait, workers_text
from fleet.ps.job.patience import is_elastic, rpc_timeout_s, start_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.calling.requests import GRACE_S
from fleet.ps.worker.life.progress import ScriptProgress, Turns

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors

# How long one call waits on the server, and how often somebody who is at work says so.
_WAIT_S = 5.0
_SIGN_S = 2.0
# How long a worker pauses that the server did not let wait.
_PAUSE_S = 0.3


class Attendee(Protocol):
    """A worker as others meet it: a Client, or one that has not declared its job yet."""

    @property
    def worker(self) -> int:
        """Its index."""

    @property
    def num_workers(self) -> int:
        """How many workers the job has."""

    def caller(self, server: int) -> ps_pb2.Caller:
        """Who calls, for a request to one server."""

    def arrive(self) -> None:
        """Wait until the last step is complete."""

    def ask_first(
        self, method: str, header: Callable[[], Message], timeout_s: float, patience_s: float
    ) -> tuple[Any, Tensors]:
        """Call server 0, whichever that is when the call is made."""


class NotComingError(DeadlineError):
    """Workers that a meeting waits for have left, or have gone on without it."""


class WorkerMeetings:
    """Meetings of one worker with the others, under names that all of them use; also a small world.

    `timeout_s`: how long to wait for workers that give no sign of being at work. `progress`: in a durable job, what
    this worker was told in a former life, which is not asked for again. `is_alone`: it meets nobody.
    """

    def __init__(
        self,
        client: Attendee,
        name: str,
        timeout_s: float,
        progress: ScriptProgress | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        self.rank = client.worker
        self.size = 1 if is_alone else client.num_workers
        self._is_alone = is_alone
        self._client = client
        self._name = name
        self._timeout_s = timeout_s
        self._progress = progress
        self._turns = Turns() if progress is None else progress.turns
        self._everybody = () if client.caller(0).incarnation else tuple(range(self.size))
        """Whom to wait for, for servers that do not know the job yet."""
        self.purpose = name
        """The call that all workers must make here, such as `checkpoint.load()`, for errors."""

    def gather_bytes(self, own: bytes) -> list[bytes]:
        """What every worker gave, by index, at the next of the meetings that all hold in the same order."""
        topic = self.next_topic
        self._turns.take(self._name)
        return self.gather_at(topic, own, self._progress)

    def gather_at(self, topic: str, own: bytes, progress: ScriptProgress | None = None) -> list[bytes]:
        """What every worker gave, by index, where all meet under this name; a former life's answer is in `progress`."""
        if is_elastic() and not self._is_alone:
            raise NotSupportedError(
                f"{self.purpose}: all workers meet there, and in this job they come and go (--worker_num A:B), so "
                "nobody knows who is to come; leave that call out, or give one number of workers"
            )
        name = f"{self._name}/{topic}"
        texts: list[str] | None = None if progress is None else progress.answers.get(name)
        if texts is None:
            texts = self.meet(topic, own.decode("latin-1"), self.purpose, is_between_steps=True)
            if progress is not None and self.size > 1 and not progress.is_in_loop:
                progress.answers.put(name, texts)
        return [text.encode("latin-1") for text in texts]

    def knows(self, ahead: int) -> bool:
        """Whether a former life was told the result of the `ahead`th `gather_bytes` from here, counted from 1."""
        name = f"{self._name}/{self.topic(ahead)}"
        return self._progress is not None and name in self._progress.answers

    def is_told(self, topic: str, others: Sequence[int] = ()) -> bool:
        """Whether all, or all of `others`, have come to a meeting; asking does not count as coming."""
        return self.size > 1 and self._call(topic, None, others, 0.0, False).is_complete

    @property
    def next_topic(self) -> str:
        """The topic of the meeting that the next `gather_bytes` holds."""
        return self.topic(1)

    def topic(self, ahead: int) -> str:
        """The topic of the meeting that the `ahead`th `gather_bytes` from here holds, counted from 1."""
        return f"gather/{self._turns.num_taken(self._name) + ahead - 1}"

    def meet(
        self, topic: str, text: str, what: str, *, others: Sequence[int] = (), is_between_steps: bool = False
    ) -> list[str]:
        """Say something, and return what every worker has said when all, or all of `others`, have come.

        DeadlineError after `timeout_s`, naming those who have not and `what` they should have called; NotComingError at
        once if they have left or, with `is_between_steps` in sync mode, have made a step instead.
        """
        if is_between_steps:
            self._client.arrive()
        if self.size == 1:
            return [text]
        signs, since = -1, time.monotonic()
        with LongWait(f"worker {self.rank}") as wait:
            while True:
                asked = time.monotonic()
                left_s = since + self._timeout_s - asked
                if is_between_steps:
                    left_s = min(left_s, wait.silent_s)
                wait_s = min(_WAIT_S, max(0.05, left_s))
                reply = self._call(topic, text, others, wait_s, is_between_steps)
                if reply.is_complete:
                    return list(reply.texts)
                if reply.elsewhere:
                    raise NotComingError(
                        f"{workers_text(reply.elsewhere)} went on, or left, without {what}; every worker calls it, at "
                        "the same step"
                    )
                if reply.signs != signs:
                    signs, since = reply.signs, time.monotonic()
                    wait.signed()
                elif time.monotonic() - since >= self._timeout_s:
                    raise DeadlineError(
                        f"waited {self._timeout_s:g} s for {workers_text(reply.missing)} to come to {what}; every "
                        "worker calls it, at the same step"
                    )
                if is_between_steps and wait.is_due:  # what waits in the background delays nobody
                    missing = tuple(reply.missing)
                    wait.tell(Awaited(f"{workers_text(missing)} to come to {what}", missing))
                if time.monotonic() - asked < wait_s / 2:  # the server had no thread for this wait
                    time.sleep(random.uniform(0.5, 1.0) * min(_PAUSE_S, wait_s))

    def tell(self, topic: str, text: str) -> None:
        """Say something without waiting for anybody."""
        if self.size > 1:
            self._call(topic, text, [self.rank], 0.0, False)

    def give_sign(self, topic: str) -> None:
        """Let those who wait for this worker know that it is at work."""
        if self.size > 1:
            self._call(topic, None, [self.rank], 0.0, False)

    @contextmanager
    def giving_signs(self, topic: str) -> Iterator[None]:
        """Within this, a thread gives signs."""
        if self.size == 1:
            yield
            return
        is_over = Event()

        def give() -> None:
            while not is_over.wait(_SIGN_S):
                try:
                    self.give_sign(topic)
                except CommunicationError:  # whoever works inside will get it too
                    return

        thread = Thread(target=give, name="fleet-sign", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _call(
        self, topic: str, text: str | None, others: Sequence[int], wait_s: float, is_between_steps: bool
    ) -> ps_pb2.MeetReply.Header:
        def header() -> ps_pb2.MeetRequest.Header:
            return ps_pb2.MeetRequest.Header(
                caller=self._client.caller(0),
                name=f"{self._name}/{topic}",
                is_here=text is not None,
                text=text or "",
                others=others or self._everybody,
                timeout_ms=int(wait_s * 1000),
                is_between_steps=is_between_steps,
            )

        patience_s = start_timeout_s() if self._everybody else rpc_timeout_s()  # servers may not be there yet
        reply, _ = self._client.ask_first("Meet", header, wait_s + max(GRACE_S, patience_s), patience_s)
        assert isinstance(reply, ps_pb2.MeetReply.Header)
        return reply
