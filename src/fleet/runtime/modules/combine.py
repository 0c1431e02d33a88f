"""`strategy.combine_gradients`: workers find out who shares a machine, and have their gradients go out together."""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet.observe.waits.waiting import workers_text
from fleet.ps.combine.combined_transport import CombinedTransport
from fleet.ps.combine.combiner import Combiner
from fleet.ps.job.patience import start_timeout_s
from fleet.ps.together.gathering import Gathering
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.progress import Progress

_log = logging.getLogger(__name__)


def check_combining(strategy: DistributedStrategy, job: JobSpec, progress: Progress | None) -> None:
    """UsageError where gradients cannot be combined as the strategy says."""
    if strategy.combine_gradients == "never":
        return
    said = f"strategy.combine_gradients = {strategy.combine_gradients!r}"
    if job.mode != "sync":
        raise UsageError(
            f"{said}: gradients of several workers are added in sync mode only, and this job's mode is {job.mode}; "
            "leave it out"
        )
    if progress is not None:
        raise UsageError(
            f"{said}: in a durable job a worker may be started again alone, and others would wait for its gradients; "
            "leave out this, or --durable"
        )
    if (what := _lossy(job)) is not None:
        raise UsageError(f"{said}: only float32 is added, and {what} travels otherwise; leave one of them out")


def combine(client: Client, strategy: DistributedStrategy, meeting: str) -> None:
    """Have the pushes of this worker go with those of others of its machine, if the strategy says so.

    Every worker calls it, after it has declared the job. `meeting` is a name that all of them use.
    """
    if strategy.combine_gradients == "never" or client.num_workers == 1:
        return
    gathering = Gathering(client, meeting, start_timeout_s())
    gathering.purpose = "fleet.init_worker() with strategy.combine_gradients = 'machine'"
    own = {"machine": _machine(), "name": f"fleet-combine-{secrets.token_hex(16)}", "token": secrets.token_hex(16)}
    everybody = [json.loads(text) for text in gathering.gather_bytes(json.dumps(own).encode())]
    members = [worker for worker, one in enumerate(everybody) if one["machine"] == own["machine"]]
    if len(members) == 1:
        _log.info("worker %d is the only one of its machine: its gradients go out as they are", client.worker)
        return
    leader, place = members[0], client.place
    name, token = everybody[leader]["name"], everybody[leader]["token"]
    if client.worker == leader:
        client.combiner = Combiner(name, token, members, place)
        _log.info("worker %d sends the gradients of %s", leader, workers_text(members))
    place.transports[:] = [CombinedTransport(one, name, token, leader) for one in place.transports]


def _machine() -> str:
    """The same for all processes that reach each other by a Unix socket with an abstract name, and for no others."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}/{os.getuid()}"


def _lossy(job: JobSpec) -> str | None:
    """What does not travel as float32; None: everything does."""
    for spec in job.tables:
        if not {spec.row_format, spec.gradient_format} <= {"float32", None}:
            return f"table {spec.name!r}"
    is_exact = {job.dense.value_format, job.dense.gradient_format} == {"float32"} and job.dense.topk is None
    return None if is_exact else "what is dense"
