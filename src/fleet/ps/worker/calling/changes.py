"""Changes that a worker has all servers make, other than pushes: each once, whoever dies in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleet import env
from fleet.errors import CheckpointError, CommunicationError, MovedError, UsageError
from fleet.jobfiles.kept import DRAINED, LEFT
from fleet.ps.job.patience import is_durable, rpc_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.status import FailedServerError
from fleet.ps.worker.calling.outbox import LEAVE_S, REFUSED_BY_SOME, Finished, NoOutbox, all_or_none
from fleet.ps.worker.calling.step_norm import keeps_pushes, settle_former

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.answer_file import AnswerFile
    from fleet.ps.worker.life.membership import HandedBack

_COUNTED = {"Shrink": "deleted", "Assign": "evicted", "Load": "rows", "Forget": "rows"}
"""What the script's next life is told of a change that was made: the sum of this, over all servers."""

_log = logging.getLogger(__name__)


@dataclass
class _HalfMade:
    """A change that is being made, or that some servers have made and others have not."""

    method: str
    header: Callable[[int], Any]
    tensors: Callable[[int], Tensors] | None
    number: int
    wanted: bytes
    turns: list[str] = field(default_factory=list)

    def numbered(self, server: int) -> Any:
        """The header for one server."""
        made = self.header(server)
        made.sequence = self.number
        return made

    def is_like(self, other: _HalfMade) -> bool:
        """Whether both want the same; those with tensors are compared with none."""
        return self.tensors is None and other.tensors is None and self.wanted == other.wanted


class WorkerChanges:
    """Makes them one after the other.

    A worker of a durable job writes each down first, and its next life finishes it before it declares itself. In this
    life one that failed when some servers had made it goes on where the same one is asked for again, and is brought to
    its end before any other is made, or any push.
    """

    def __init__(self, client: Client, outbox: NoOutbox, answers: AnswerFile | None) -> None:
        """`answers`: what the script's next life is told of the changes that this one has made."""
        self._client = client
        self._outbox = outbox
        self._answers = answers
        self._lock = threading.Lock()
        self._half_made: _HalfMade | None = None
        self.has_left = False
        """Whether a former life has left, or was about to: no step waits for this one."""

    def finish(self) -> None:
        """Finish what a former life of this worker has begun."""
        client, had_left = self._client, False
        while True:
            server_set = client.server_set
            try:
                finished = self._outbox.finish(server_set, is_settled=client.job.clips_on_servers)
                if keeps_pushes(server_set) and self._outbox.mark != LEFT:
                    with suppress(FailedServerError):  # it waits for a load
                        had_left = settle_former(server_set, client.worker) and bool(env.FLEET_LIFE.get())
                break
            except MovedError:
                client.follow(server_set)
        if finished is not None:
            self._note(finished)
        self.has_left = self._outbox.has_left or had_left
        if self._outbox.mark:
            self._outbox.remove(self._outbox.mark)
            raise SystemExit(0)
        if not self.has_left:
            self._outbox.done()

    def make(
        self,
        method: str,
        header: Callable[[int], Any],
        tensors: Callable[[int], Tensors] | None = None,
        *,
        turn: str = "",
        timeout_s: float | None = None,
    ) -> list[Any]:
        """Have every server make a change; the answer of each. `turn`: the name by which the next life asks for it."""
        self._client.arrive()
        with self._lock:
            whole = header(0)
            whole.ClearField("caller")
            change = _HalfMade(method, header, tensors, 0, method.encode() + whole.SerializeToString())
            if (former := self._half_made) is not None and former.is_like(change):
                change = former
            elif former is not None and (former.method, method) != ("Load", "Load"):
                with suppress(*(REFUSED_BY_SOME if method == "Load" else ())):  # it takes the place of everything
                    self._make(former, timeout_s)
            change.number = change.number or self._client.next_number()
            change.turns += [turn] if turn else []
            return self._make(change, timeout_s)

    def settle(self) -> None:
        """Bring a change that failed half-way to its end: servers give up a number that many pushes have passed."""
        if self._half_made is None or not self._lock.acquire(blocking=False):  # one is being made right now
            return
        try:
            if self._half_made is not None:
                self._make(self._half_made, None)
        finally:
            self._lock.release()

    def _make(self, change: _HalfMade, timeout_s: float | None) -> list[Any]:
        is_kept = was_sent = self._half_made is change
        self._half_made = change

        def write_down(messages: Sequence[tuple[Any, Tensors]]) -> None:
            nonlocal is_kept
            is_kept = was_sent  # where it cannot be written down, a server may have made it
            self._outbox.intend(change.method, messages, change.turns)
            is_kept = False

        tensors = change.tensors or (lambda _: ())
        try:
            answers = self._client.ask(
                change.method, change.numbered, tensors, timeout_s, write_down=write_down, answers_of=all_or_none
            )
        except (UsageError, CheckpointError):  # refused: there is nothing to finish
            if not is_kept:
                self._half_made = None
                self._outbox.done()
            raise
        replies = [reply for reply, _ in answers]
        self._note(Finished(change.turns, change.method, replies))
        self._half_made = None
        self._outbox.done()
        return replies

    def forget_push(self) -> None:
        """Have nothing written down of pushes that have all arrived: rows are about to be forgotten."""
        self.settle()
        self._outbox.forget_push()

    def leave(self, *, is_unfinished: bool = False, back: Sequence[HandedBack] | None = None) -> None:
        """Tell the servers that this worker has finished; one that is gone, because all workers have left, is skipped.

        `is_unfinished`: the script ends without `fleet.stop_worker()`, and whoever counts on this worker is told.
        `back`: it is drained, and hands back what it has not read; an error if one cannot be reached.
        """
        if not is_unfinished:
            self._client.arrive()
            self.settle()
        is_drained = back is not None
        told = ps_pb2.LeaveRequest.Header(
            is_unfinished=is_unfinished, is_drained=is_drained, back=back, sequence=self._client.next_number()
        )
        while not self._has_left(told):
            pass
        if not is_unfinished:
            self._outbox.remove(DRAINED if is_drained else LEFT)

    def _has_left(self, told: ps_pb2.LeaveRequest.Header) -> bool:
        """Tell each of the present servers; False where others have taken their place."""
        client = self._client
        # Servers that fleetrun looks after in a durable job come back, and stay until it ends them.
        are_kept = is_durable() and env.is_under_fleetrun()
        patience_s = rpc_timeout_s() if are_kept else min(LEAVE_S, rpc_timeout_s())
        server_set = client.server_set
        headers = []
        for server in range(len(server_set.transports)):
            headers.append(header := ps_pb2.LeaveRequest.Header(caller=client.caller_at(server_set, server)))
            header.MergeFrom(told)
        if not told.is_unfinished:
            self._outbox.intend("Leave", [(header, ()) for header in headers])
        for server, header in enumerate(headers):
            try:
                server_set.call(server, "Leave", header, timeout_s=rpc_timeout_s(), patience_s=patience_s).result()
            except MovedError:
                client.follow(server_set)
                return False
            except CommunicationError as error:
                if (
                    not error.retryable or told.is_drained
                ):  # what it hands back counts on all of them: the next life says so
                    raise
                _log.warning("worker %d could not take leave: %s", client.worker, error)
        return True

    def _note(self, finished: Finished) -> None:
        """Have the script's next life know that a change was made."""
        count = _COUNTED.get(finished.method)
        number = sum(getattr(reply, count) for reply in finished.replies) if count else 0
        for turn in finished.turns:
            if self._answers is not None:
                self._answers.put(turn, number)
