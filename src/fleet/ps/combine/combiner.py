"""The worker of a machine that combines: it takes the pushes of the others, by a Unix socket, and sends one for all.

A `Push` is kept in the lane of its server until all have come. A `Meet` asks who is waited for or, named `LEAVE`, says
that its worker makes no more steps. The other end is `fleet.ps.combine.combined_transport`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fleet import _native
from fleet.errors import NotReadyError, UsageError
from fleet.observe.waits.waiting import Awaited, told_meanwhile, workers_text
from fleet.ps.combine.lane import Lane
from fleet.ps.job.patience import longest_wait_s, step_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.server.plane_server import failing

if TYPE_CHECKING:
    from fleet.ps.worker.calling.place import Place

LEAVE = "leave"
NUM_THREADS = 2
# Of pushes that come again, and are sent alone.
NUM_ALONE = 8

_log = logging.getLogger(__name__)


class Combiner:
    """In the first worker of a machine that has several."""

    def __init__(self, name: str, token: str, members: Sequence[int], place: Place) -> None:
        """Listen under an abstract name. `members` are the workers of this machine, ascending, this one first."""
        self._worker, self._num_members = members[0], len(members)
        if len(set(place.instances)) < len(place.instances):
            raise UsageError("two servers began in the same moment, and cannot be told apart; start the job again")
        lanes = [Lane(one, server, members, place.job) for server, one in enumerate(place.transports)]
        self._lanes = dict(zip(place.instances, lanes, strict=True))
        self._alone = ThreadPoolExecutor(NUM_ALONE, thread_name_prefix="fleet-alone")
        self._server = _native.PlaneServer(
            [name],
            "",
            token.encode(),
            16 + 2 * len(members) * len(lanes),
            1 << 40,
            longest_wait_s(),
            self._decide,
            lambda peer, why: _log.warning("a stranger (%s) wanted to combine gradients: %s", peer, why),
        )
        self._threads = [
            *(threading.Thread(target=self._server.run, args=(number,), daemon=True) for number in range(NUM_THREADS)),
            *(threading.Thread(target=lane.run, name="fleet-combine", daemon=True) for lane in lanes),
        ]
        for thread in self._threads:
            thread.start()

    def wait_until_left(self) -> None:
        """Wait until the other workers of this machine have left too: without this one they cannot push."""
        lanes = list(self._lanes.values())

        def awaited() -> Awaited | None:
            if not (missing := tuple(lanes[-1].wait_until_left(self._worker, 0.0))):
                return None
            text = f"{workers_text(missing)} to call fleet.stop_worker(): it sends their gradients"
            return Awaited(text, missing, is_limited=True)

        with told_meanwhile(f"worker {self._worker}", awaited):
            for lane in lanes:
                if missing := lane.wait_until_left(self._worker, step_timeout_s()):
                    _log.warning("worker %d leaves before %s", self._worker, workers_text(missing))

    def stop(self) -> None:
        """Take no more pushes, and tell those who wait for an answer."""
        for lane in self._lanes.values():
            lane.close()
        self._server.stop()

    def join(self) -> None:
        """Wait for the threads to end; those that wait for a server do when the connections to it are closed."""
        self._alone.shutdown(wait=True, cancel_futures=True)
        for thread in self._threads:
            thread.join()

    def _decide(self, _: int, call: _native.PlaneCall) -> None:
        """Called by the threads of native code, which must not wait here."""
        with failing(call):
            if call.method == "Push":
                header = ps_pb2.PushRequest.Header.FromString(call.header)
                lane = self._lane(header.caller)
                if not lane.take(call, header):
                    self._alone.submit(lane.send_alone, call, header)
            elif call.method == "Meet":
                asked = ps_pb2.MeetRequest.Header.FromString(call.header)
                lane = self._lane(asked.caller)
                if asked.name == LEAVE:
                    lane.leave(asked.caller.worker)
                call.reply(ps_pb2.MeetReply.Header(missing=lane.missing()).SerializeToString(), ())
            else:
                raise UsageError(f"{call.method} is not for the worker that combines gradients")

    def _lane(self, caller: ps_pb2.Caller) -> Lane:
        lane = self._lanes.get(caller.instance)
        if lane is None:
            raise NotReadyError(f"worker {caller.worker} knows a server that worker {self._worker} does not")
        return lane
