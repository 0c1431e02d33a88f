"""How workers and servers keep step: one small class for each mode behind one interface."""

from fleet.errors import UsageError
from fleet.ps.worker.modes.async_mode import Async
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.modes.geo import Geo
from fleet.ps.worker.modes.half import HalfAsync
from fleet.ps.worker.modes.sync import Sync

POLICIES: dict[str, type[PushPolicy]] = {"sync": Sync, "async": Async, "half_async": HalfAsync, "geo": Geo}


def make_push_policy(setup: Setup) -> PushPolicy:
    """The policy of the mode that the job was declared with."""
    kind = POLICIES.get(setup.client.job.mode)
    if kind is None:
        raise UsageError(f"there is no mode {setup.client.job.mode!r}; there are {', '.join(POLICIES)}")
    return kind(setup)
