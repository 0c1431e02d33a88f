"""How workers and servers keep step: one small class for each mode behind one interface."""

from __future__ import annotations

from fleet.errors import UsageError
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.modes.eventual import Async
from fleet.ps.worker.modes.geo import Geo
from fleet.ps.worker.modes.half import HalfAsync
from fleet.ps.worker.modes.sync import Sync

POLICIES: dict[str, type[PushPolicy]] = {"sync": Sync, "async": Async, "half_async": HalfAsync, "geo": Geo}

_WITHOUT = {"sync": "rows are exact at every step", "geo": "workers keep copies of rows anyway"}


def make_push_policy(setup: Setup) -> PushPolicy:
    """The policy of the mode that the job was declared with."""
    kind = POLICIES.get(setup.client.job.mode)
    if kind is None:
        raise UsageError(f"there is no mode {setup.client.job.mode!r}; there are {', '.join(POLICIES)}")
    if setup.cache_rows and not kind.may_cache:
        raise UsageError(
            f"strategy.a_sync_configs.cache_rows = {setup.cache_rows} is for async and half-async mode; this job is in "
            f"{setup.client.job.mode} mode, where {_WITHOUT[setup.client.job.mode]}: leave it 0"
        )
    return kind(setup)
