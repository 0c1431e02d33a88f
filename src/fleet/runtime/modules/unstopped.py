"""A worker whose script ends without `fleet.stop_worker()`: what it owes is sent, and nobody waits for it in vain.

fleetrun knows of such a worker by a note that stands from its joining to its leaving (`fleet.jobfiles.joining`), so
also of one that ends without running anything any more, as `os._exit` does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.jobfiles.ending import has_failed, watch_exit
from fleet.jobfiles.joining import note_joined, note_stopped, unstopped_text
from fleet.ps.wire.transport import LocalTransport
from fleet.runtime.modules import stalls

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker

_log = logging.getLogger(__name__)


def joined(worker: Worker) -> None:
    """Note that a worker has joined its servers."""
    if _has_servers(worker):
        watch_exit()
        note_joined()
        stalls.joined(worker)


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
