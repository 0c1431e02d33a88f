"""Fleet: distributed training for PyTorch, a parameter server and collectives behind one API.

    import fleet

    fleet.init(is_collective=True)      # who am I, and where are the others?
    print(fleet.worker_index(), fleet.worker_num())

Importing this package does nothing and costs nothing: names are resolved when first used, torch is imported by
`fleet.init()`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fleet._version import __version__ as __version__

if TYPE_CHECKING:
    from fleet.api import (
        Fleet,
        barrier_worker,
        device,
        init,
        is_first_worker,
        is_server,
        is_worker,
        local_rank,
        node_num,
        server_endpoints,
        server_index,
        server_num,
        shutdown,
        util,
        worker_endpoints,
        worker_index,
        worker_num,
    )
    from fleet.errors import FleetError
    from fleet.observe import progress
    from fleet.roles import (
        MPISymetricRoleMaker,
        PaddleCloudRoleMaker,
        Role,
        UserDefinedCollectiveRoleMaker,
        UserDefinedRoleMaker,
    )
    from fleet.strategy import DistributedStrategy

_HOMES = {
    "DistributedStrategy": "fleet.strategy",
    "Fleet": "fleet.api",
    "FleetError": "fleet.errors",
    "MPISymetricRoleMaker": "fleet.roles",
    "PaddleCloudRoleMaker": "fleet.roles",
    "Role": "fleet.roles",
    "UserDefinedCollectiveRoleMaker": "fleet.roles",
    "UserDefinedRoleMaker": "fleet.roles",
    "barrier_worker": "fleet.api",
    "device": "fleet.api",
    "init": "fleet.api",
    "is_first_worker": "fleet.api",
    "is_server": "fleet.api",
    "is_worker": "fleet.api",
    "local_rank": "fleet.api",
    "node_num": "fleet.api",
    "progress": "fleet.observe",
    "server_endpoints": "fleet.api",
    "server_index": "fleet.api",
    "server_num": "fleet.api",
    "shutdown": "fleet.api",
    "util": "fleet.api",
    "worker_endpoints": "fleet.api",
    "worker_index": "fleet.api",
    "worker_num": "fleet.api",
}

_LIVE = {"device", "util"}
"""Not functions but values that change with init() and shutdown()."""

__all__ = [
    "DistributedStrategy",
    "Fleet",
    "FleetError",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
    "barrier_worker",
    "device",
    "init",
    "is_first_worker",
    "is_server",
    "is_worker",
    "local_rank",
    "node_num",
    "progress",
    "server_endpoints",
    "server_index",
    "server_num",
    "shutdown",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fleet' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    if name not in _LIVE:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
