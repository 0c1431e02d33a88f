"""`fleet.forget` in a job: the rows of some ids go everywhere, while nobody trains."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import env
from fleet.errors import UsageError
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.asking.keys import Route, route
from fleet.ps.worker.asking.lookup import CPU, Lookup, Request
from fleet.runtime.saved.once_for_all import once_for_all
from fleet.runtime.saved.saving import stats
from fleet.runtime.saved.server_writes import SAVE_TIMEOUT_S
from fleet_tools.forgetting.cleaning import Cleaner
from fleet_tools.forgetting.ids import keys_of
from fleet_tools.forgetting.report import ForgetReport

if TYPE_CHECKING:
    from fleet.collective.world.util import Util
    from fleet.ps.worker.worker import Worker
    from fleet.roles import Identity

LOOK_S = 0.2
"""How often it is looked whether the servers have let go."""

_log = logging.getLogger(__name__)


def forget(
    worker: Worker,
    ids: Any,
    table: str | Collection[str] | None,
    folders: Sequence[Any],
    wanted: Any,
    timeout_s: float,
    who: Identity,
    util: Util,
) -> ForgetReport:
    """Have worker 0 do it, and return its report; the others have one without places. `wanted`: schema and column."""
    began_at = time.monotonic()
    names = _tables(worker, table)
    keys: NDArray[np.int64] = keys_of(ids, *wanted)
    is_all = len(names) == len(worker.client.job.tables)
    cleaner = Cleaner(keys, None if is_all else names, folders)
    report = cleaner.report
    if not len(keys):
        return report
    if who.index == 0:
        cleaner.check()

    def check() -> None:
        if worker.is_mid_step:
            raise UsageError(
                "fleet.forget() comes between backward() and optimizer.step(), which would train rows that are no "
                "more; call it after the step"
            )
        worker.policy.flush()
        worker.client.arrive()
        worker.client.changes.forget_push()

    def follow() -> None:
        for index, spec in enumerate(worker.client.job.tables):
            if spec.name in names:
                worker.forget_rows(index)

    def act() -> int:
        cleaner.remember(_rows(worker, keys, names))
        replies = worker.client.changes.make(
            "Forget",
            lambda server: ps_pb2.ForgetRequest.Header(
                caller=worker.client.caller(server), tables=names, keys=keys.tobytes()
            ),
            timeout_s=SAVE_TIMEOUT_S,
        )
        follow()
        report.waiting = sum(reply.waiting for reply in replies)
        cleaner.clean(_own_folder(), lambda: _published(worker, began_at + timeout_s), began_at + timeout_s)
        return sum(reply.rows for reply in replies)

    report.rows = once_for_all(worker, "forget", who, util, act, follow, check)
    report.seconds = time.monotonic() - began_at
    return report


def _own_folder() -> list[Path]:
    """What a durable job keeps on its disks, as far as this worker sees it."""
    folder = env.FLEET_DURABLE.get()
    return [] if folder is None or not Path(folder).exists() else [Path(folder)]


def _published(worker: Worker, deadline: float) -> tuple[str, int]:
    """Wait until the journals of all servers have let go; where they publish, and how often rows were forgotten."""
    while True:
        said = stats(worker)
        owing = [number for number, one in enumerate(said) if one["forgetting"]]
        if not owing:
            return said[0]["publish"], min(one["forgotten"] for one in said)
        if time.monotonic() > deadline:
            _log.warning("fleet.forget(): the journal of server %d has not let go yet; see its log", owing[0])
            return said[0]["publish"], min(one["forgotten"] for one in said)
        time.sleep(LOOK_S)


def _rows(worker: Worker, keys: NDArray[np.int64], names: Collection[str]) -> dict[str, NDArray[np.float32]]:
    """The values that servers have of some keys, in the order of the keys; in memory alone."""
    client, found = worker.client, {}
    chosen = [(index, spec) for index, spec in enumerate(client.job.tables) if spec.name in names]
    for index, spec in chosen:
        made = route(torch.from_numpy(keys), client.num_servers)
        plain = Route(made.grouped, torch.empty(0, dtype=torch.int64), made.offsets, None)
        lookup = Lookup(Request(index, (), only_read=True), spec.width, plain, torch.empty(0, dtype=torch.int64))
        client.pull([lookup], is_exact=True).finish(CPU, False)
        assert lookup.rows is not None
        found[spec.name] = np.array(lookup.rows.numpy())
    return found


def _tables(worker: Worker, table: str | Collection[str] | None) -> list[str]:
    """The names of the tables that are meant; UsageError for one that the job has not declared."""
    names = [spec.name for spec in worker.client.job.tables]
    wanted = names if table is None else [table] if isinstance(table, str) else list(table)
    if unknown := [one for one in wanted if one not in names]:
        known = ", ".join(map(repr, names)) or "none"
        raise UsageError(f"fleet.forget(): there is no table {unknown[0]!r}; the job declared {known}")
    return wanted
