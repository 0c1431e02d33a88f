"""Worker 0's side of a change of the number of servers, while training goes on (docs/adr/0021-reshard.md)."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fleet import env
from fleet.errors import CommunicationError, DeadlineError, FleetError, NotReadyError, UsageError
from fleet.jobfiles.layouts import Layouts, own_layouts
from fleet.ps.job.patience import rpc_timeout_s, start_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, outcomes
from fleet.ps.wire.taken_pushes import TakenPushes, joined_all
from fleet.ps.wire.transport import Transport
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.requests import GRACE_S
from fleet.ps.worker.calling.server_set import ServerSet
from fleet.ps.worker.parts.contract import StepPart, Update

NUM_ATTEMPTS = 3
PUSHES_S = 25.0
"""How long pushes that some servers have may take to reach the others; servers wait a little longer."""
BUSY_S = 600.0
"""How long to wait for a save that is being written."""
_WAIT_S = 1.0
_LOOK_S = 0.05

Phase = ps_pb2.ReshardRequest.Phase

_log = logging.getLogger(__name__)


class GivenUpError(CommunicationError):
    """A move was given up; the servers are those from before, and another attempt may succeed."""


def check_reshard(client: Client, num_servers: int) -> Layouts:
    """The notes of the job; UsageError if its number of servers cannot be changed to this."""
    layouts = own_layouts()
    if num_servers < 1:
        raise UsageError(f"fleet.reshard(): servers must be a whole number >= 1, got {num_servers}")
    if layouts is None or not env.is_under_fleetrun():
        raise UsageError(
            "fleet.reshard() needs a durable job, whose servers keep a journal: fleetrun --durable DIR ..."
        )
    if client.server_set.term:
        raise UsageError("fleet.reshard() moves rows to servers without copies; start the job without --standby")
    if client.elsewhere is None:
        raise UsageError("fleet.reshard() needs servers that fleetrun has started, and a job of modules")
    return layouts


def reshard(client: Client, num_servers: int) -> None:
    """Move everything to so many servers, and return when they are the servers of the job."""
    layouts = check_reshard(client, num_servers)
    for attempt in range(1, NUM_ATTEMPTS + 1):
        if client.num_servers == num_servers:
            return
        try:
            _Attempt(client, layouts, num_servers).run()
            return
        except GivenUpError as error:
            if attempt == NUM_ATTEMPTS:
                raise CommunicationError(
                    f"the number of servers stays {client.num_servers}, after {NUM_ATTEMPTS} attempts: {error}"
                ) from None
            _log.warning("the move to %d servers begins again: %s", num_servers, error)


def give_up_former(worker: int) -> None:
    """Give up a move that a former life of worker 0 has begun: servers would go on holding up pushes for it."""
    layouts = own_layouts()
    if worker == 0 and layouts is not None and (undecided := layouts.undecided) is not None:
        layouts.decide(undecided, abandoned="worker 0 was started again meanwhile")


class Background(threading.Thread):
    """Changes the number of servers beside training."""

    def __init__(self, client: Client, num_servers: int) -> None:
        super().__init__(name="fleet-reshard", daemon=True)
        self._client = client
        self._num_servers = num_servers
        self.failure: FleetError | None = None

    def run(self) -> None:
        try:
            reshard(self._client, self._num_servers)
        except FleetError as error:
            self.failure = error
            _log.warning("%s", error)
        except Exception as error:  # of any kind: whoever asked for it must learn of it
            self.failure = CommunicationError(f"the number of servers could not be changed: {error!r}")
            _log.warning("%s", self.failure)


class _Attempt:
    """One wanted layout, until it is decided whether it holds."""

    def __init__(self, client: Client, layouts: Layouts, num_servers: int) -> None:
        self._client = client
        self._layouts = layouts
        self._server_set: ServerSet = client.server_set
        self._num_servers = num_servers
        self._new: Sequence[Transport] = ()
        self._wanted: list[TakenPushes] = []
        number = layouts.ask(num_servers)
        if number is None:
            raise UsageError("fleet.reshard(): the number of servers is being changed already; wait until that is over")
        self._number = number

    def run(self) -> None:
        client, old = self._client, self._server_set.transports
        try:
            endpoints = self._started()
            assert client.elsewhere is not None
            self._new, job = client.elsewhere.connect(endpoints), client.elsewhere.plan(self._num_servers)
            self._wait_for_servers()
            began_at = time.monotonic()
            copied = self._until_done(Phase.COPY, old)
            self._until_done(Phase.FILL, self._new, job=job.to_json(), num_sources=len(old))
            self._wait_for_saves()
            bulk_s, held_at = time.monotonic() - began_at, time.monotonic()
            self._hold()
            rest = self._until_done(Phase.TAKE, old)
            self._until_done(Phase.ADOPT, self._new, num_sources=len(old))
            decided = self._layouts.decide(self._number, endpoints)
            held_s = time.monotonic() - held_at
        except BaseException as error:
            decided = self._layouts.decide(self._number, abandoned=str(error) or repr(error))
            if not decided.endpoints:
                self._end()
                if isinstance(error, FleetError) and not isinstance(error, UsageError):
                    raise GivenUpError(decided.abandoned) from None
                raise
        self._end()
        if not decided.endpoints:
            raise GivenUpError(decided.abandoned)
        _log.warning(
            "servers: %d instead of %d; %d rows moved in %.2f s while training went on, then %d in %.2f s while pushes "
            "waited",
            *(self._num_servers, len(old), copied, bulk_s, rest, held_s),
        )

    def _started(self) -> tuple[str, ...]:
        """The endpoints of the new servers, when fleetrun has started them."""
        deadline = time.monotonic() + start_timeout_s()
        while (started := self._layouts.started(self._number)) is None:
            self._refuse_given_up()
            if time.monotonic() > deadline:
                raise DeadlineError(f"waited {start_timeout_s():g} s for fleetrun to start servers")
            time.sleep(_LOOK_S)
        endpoints, refused = started
        if refused:
            raise UsageError(f"fleet.reshard(): {refused}")
        return endpoints

    def _wait_for_servers(self) -> None:
        """Return when the new servers are there."""
        limit_s = start_timeout_s()
        calls = [
            ServerCall(one, "Stats", ps_pb2.StatsRequest.Header(), (), limit_s, limit_s, None, self._is_decided)
            for one in self._new
        ]
        for call in calls:
            with suppress(NotReadyError):  # it has no job yet
                call.result()

    def _is_decided(self) -> bool:
        return self._layouts.decided(self._number) is not None

    def _wait_for_saves(self) -> None:
        deadline = time.monotonic() + BUSY_S
        while any(reply.busy for reply in self._ask(Phase.COPY, self._server_set.transports)):
            if time.monotonic() > deadline:
                raise DeadlineError(f"waited {BUSY_S:g} s for a save to be written")
            time.sleep(_LOOK_S)

    def _hold(self) -> None:
        """Have all servers keep new pushes out; the new layout gets all that any of them has taken."""
        replies = []
        for transport in self._server_set.transports:  # server 0 first, as for a cut
            while (reply := self._ask(Phase.HOLD, [transport])[0]).busy:
                time.sleep(_LOOK_S)
            replies.append(reply)
        self._wanted = joined_all(reply.taken for reply in replies)

    def _until_done(self, phase: Phase, transports: Sequence[Transport], **more: Any) -> int:
        """Ask until a phase is over on all; how many rows they wrote. The old servers hear from us meanwhile."""
        since, rows, pending = time.monotonic(), 0, list(transports)
        while pending:
            replies = self._ask(phase, pending, wait_s=_WAIT_S, all_of=transports, **more)
            missing = sorted({worker for reply in replies for worker in reply.missing})
            if missing and time.monotonic() - since > PUSHES_S:
                raise DeadlineError(f"waited {PUSHES_S:g} s for a push of worker {missing[0]} that other servers have")
            rows += sum(reply.rows for reply in replies if reply.is_done)
            pending = [one for one, reply in zip(pending, replies, strict=True) if not reply.is_done]
            if transports is self._new:
                self._ask(Phase.TAKE if phase == Phase.ADOPT else Phase.COPY, self._server_set.transports)
        return rows

    def _ask(
        self,
        phase: Phase,
        transports: Sequence[Transport],
        wait_s: float = 0.0,
        all_of: Sequence[Transport] = (),
        **more: Any,
    ) -> list[ps_pb2.ReshardReply.Header]:
        self._refuse_given_up()
        is_old = all_of is not self._new or not self._new
        calls = []
        for transport in transports:
            index = list(self._server_set.transports if is_old else self._new).index(transport)
            header = ps_pb2.ReshardRequest.Header(
                caller=self._client.caller_at(self._server_set, index) if is_old else None,
                layout=self._number,
                phase=phase,
                server_index=index,
                timeout_ms=int(wait_s * 1000),
                taken=[one.message() for one in self._wanted],
                **more,
            )
            limit_s = wait_s + GRACE_S
            calls.append(ServerCall(transport, "Reshard", header, (), limit_s, rpc_timeout_s(), None, self._is_decided))
        replies: list[Any] = [call.result()[0] for call in calls]
        for reply in replies:
            if reply.lost:
                raise GivenUpError(reply.lost)
        return replies

    def _refuse_given_up(self) -> None:
        decided = self._layouts.decided(self._number)
        if decided is not None and not decided.endpoints:
            raise GivenUpError(decided.abandoned)

    def _end(self) -> None:
        """Let the old servers know that it is decided; those that cannot be reached look for themselves."""
        calls = []
        for index, transport in enumerate(self._server_set.transports):
            header = ps_pb2.ReshardRequest.Header(
                caller=self._client.caller_at(self._server_set, index), layout=self._number, phase=Phase.END
            )
            calls.append(ServerCall(transport, "Reshard", header, (), GRACE_S, 0.0))
        outcomes(calls)
        for transport in self._new:
            transport.close()
        self._layouts.clear_moving(self._number)


class Wishes(StepPart):
    """What worker 0 does at every step: see whether `fleetrun reshard` wants another number of servers."""

    def __init__(self, client: Client, begin: Callable[[int], None]) -> None:
        self._layouts = own_layouts() if client.worker == 0 and client.elsewhere is not None else None
        self._begin = begin

    def look(self) -> None:
        """Begin what is wanted."""
        layouts = self._layouts
        if layouts is not None and layouts.has_wish and (num_servers := layouts.take_wish()) is not None:
            self._begin(num_servers)

    def before_push(self, update: Update) -> None:  # noqa: ARG002
        self.look()
