"""A worker from `fleet.init()` to its end: watched, joined, and left also by a script without `fleet.stop_worker()`.

fleetrun knows of such a worker by a note that stands from its joining to its leaving (`fleet.jobfiles.joining`), so
also of one that ends without running anything any more, as `os._exit` does.
"""

from __future__ import annotations

import copy
import logging
import threading
from typing import TYPE_CHECKING

from fleet import env
from fleet.jobfiles.ending import has_failed, watch_exit
from fleet.jobfiles.joining import note_joined, note_stopped, unstopped_text
from fleet.net import parse_place
from fleet.observe.waits.waiting import served_timeout_s
from fleet.ps.job.patience import is_durable, rpc_timeout_s
from fleet.ps.stall.remote_board import RemoteBoard
from fleet.ps.stall.report import Limits
from fleet.ps.stall.watch import ServedWatch
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.listed_transport import reached
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.wire.trust.own_token import token_for
from fleet.ps.wire.trust.tls import Tls
from fleet.roles import Role

if TYPE_CHECKING:
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.servers import Servers

_log = logging.getLogger(__name__)


def joined(worker: Worker) -> None:
    """Note that a worker has joined its servers."""
    if _has_servers(worker):
        watch_exit()
        note_joined()
        watch_steps(worker)


def stopped(worker: Worker) -> None:
    """Note that a worker has left its servers in order."""
    if _has_servers(worker):
        note_stopped()


def leave(worker: Worker) -> None:
    """Leave the servers as the process ends, without a word if it failed: a durable job waits for its next life.

    In synchronous mode the others count on this worker's steps, so they are told that no more will come; in every other
    mode what is queued is sent.
    """
    if has_failed() or not _has_servers(worker):
        return
    who = f"worker {worker.client.worker}"
    try:
        if worker.client.job.mode == "sync":
            worker.client.changes.leave(is_unfinished=True)
        else:
            worker.stop()
    except Exception as error:  # the process ends, whether or not it could say so
        _log.warning("%s could not take leave of its servers: %s", who, error)
    if not note_joined():  # fleetrun says it, once for all workers
        _log.warning("%s", unstopped_text(who))


def _has_servers(worker: Worker) -> bool:
    return not any(isinstance(transport, LocalTransport) for transport in worker.client.transports)


def watch_from_the_start(servers: Servers) -> None:
    """Watch from `fleet.init()` on, in a process that fleetrun has started: its job is there, or on its way."""
    if env.is_under_fleetrun():
        watch(servers)


def watch(servers: Servers) -> None:
    """Watch this worker, if it has servers and is not watched yet.

    A watch may end its process, so only the main thread starts one.
    """
    who = servers.who
    is_main = threading.current_thread() is threading.main_thread()
    if who.role is not Role.WORKER or not who.server_endpoints or not is_main or ServedWatch.running() is not None:
        return

    def first() -> Transport:
        present = copy.copy(servers)  # a copy: the main thread refreshes its own
        present.refresh()
        return _reach(str(present.who.server_endpoints[0]))

    timeout_s = served_timeout_s()
    limits = Limits(timeout_s, max(timeout_s, rpc_timeout_s()) if is_durable() else 0.0)
    board = RemoteBoard(first, who.index, who.num_workers)
    ServedWatch(board, who.index, who.num_workers, limits, _reach).start()


def watch_steps(worker: Worker) -> None:
    """Tell the watch of the steps of a worker that has joined its servers."""
    if (running := ServedWatch.running()) is not None:
        running.num_steps = lambda: worker.num_steps


def watch_no_more() -> None:
    """End the watch: this worker has left the servers, or the script ends."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and (running := ServedWatch.running()) is not None:
        running.stop()


def _reach(endpoint: str) -> Transport:
    """A connection of the watch's own."""
    tls = Tls.from_environment()
    return reached(parse_place(endpoint), lambda where: GrpcTransport(str(where), token_for(where), tls))
