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
    from fleet import data, imperative, metrics, nn, optim, static, transpiler
    from fleet.api import (
        Fleet,
        barrier_worker,
        device,
        distributed_model,
        distributed_optimizer,
        flush,
        init,
        init_server,
        init_worker,
        is_collective,
        is_first_worker,
        is_server,
        is_worker,
        join,
        load_model,
        local_rank,
        main_program,
        node_num,
        prefetch,
        run_server,
        save_inference_model,
        save_persistables,
        server_endpoints,
        server_index,
        server_num,
        server_stats,
        shrink,
        shutdown,
        startup_program,
        stop_worker,
        util,
        worker_endpoints,
        worker_index,
        worker_num,
    )
    from fleet.errors import FleetError
    from fleet.observe import progress
    from fleet.ps import entries, initializers, rules
    from fleet.ps.entries import AlwaysEntry, CountFilterEntry, ProbabilityEntry, ShowClickEntry
    from fleet.roles import (
        MPISymetricRoleMaker,
        PaddleCloudRoleMaker,
        Role,
        UserDefinedCollectiveRoleMaker,
        UserDefinedRoleMaker,
    )
    from fleet.runtime.training.checkpoint import Checkpoint
    from fleet.strategy import DistributedStrategy

_HOMES = {
    "AlwaysEntry": "fleet.ps.entries",
    "Checkpoint": "fleet.runtime.training.checkpoint",
    "CountFilterEntry": "fleet.ps.entries",
    "DistributedStrategy": "fleet.strategy",
    "Fleet": "fleet.api",
    "FleetError": "fleet.errors",
    "MPISymetricRoleMaker": "fleet.roles",
    "PaddleCloudRoleMaker": "fleet.roles",
    "ProbabilityEntry": "fleet.ps.entries",
    "Role": "fleet.roles",
    "ShowClickEntry": "fleet.ps.entries",
    "UserDefinedCollectiveRoleMaker": "fleet.roles",
    "UserDefinedRoleMaker": "fleet.roles",
    "barrier_worker": "fleet.api",
    "device": "fleet.api",
    "distributed_model": "fleet.api",
    "distributed_optimizer": "fleet.api",
    "flush": "fleet.api",
    "init": "fleet.api",
    "init_server": "fleet.api",
    "init_worker": "fleet.api",
    "is_collective": "fleet.api",
    "is_first_worker": "fleet.api",
    "is_server": "fleet.api",
    "is_worker": "fleet.api",
    "join": "fleet.api",
    "load_model": "fleet.api",
    "local_rank": "fleet.api",
    "main_program": "fleet.api",
    "node_num": "fleet.api",
    "prefetch": "fleet.api",
    "progress": "fleet.observe",
    "run_server": "fleet.api",
    "save_inference_model": "fleet.api",
    "save_persistables": "fleet.api",
    "server_endpoints": "fleet.api",
    "server_index": "fleet.api",
    "server_num": "fleet.api",
    "server_stats": "fleet.api",
    "shrink": "fleet.api",
    "shutdown": "fleet.api",
    "startup_program": "fleet.api",
    "stop_worker": "fleet.api",
    "util": "fleet.api",
    "worker_endpoints": "fleet.api",
    "worker_index": "fleet.api",
    "worker_num": "fleet.api",
}

_MODULES = {
    "data": "fleet.data",
    "entries": "fleet.ps.entries",
    "imperative": "fleet.imperative",
    "initializers": "fleet.ps.initializers",
    "metrics": "fleet.metrics",
    "nn": "fleet.nn",
    "optim": "fleet.optim",
    "rules": "fleet.ps.rules",
    "static": "fleet.static",
    "transpiler": "fleet.transpiler",
}
"""Parts of the package that are public under a shorter name."""

_LIVE = {"device", "main_program", "startup_program", "util"}
"""Not functions but values that change with init() and shutdown()."""

__all__ = [
    "AlwaysEntry",
    "Checkpoint",
    "CountFilterEntry",
    "DistributedStrategy",
    "Fleet",
    "FleetError",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "ProbabilityEntry",
    "Role",
    "ShowClickEntry",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
    "barrier_worker",
    "data",
    "device",
    "distributed_model",
    "distributed_optimizer",
    "entries",
    "flush",
    "imperative",
    "init",
    "init_server",
    "init_worker",
    "initializers",
    "is_collective",
    "is_first_worker",
    "is_server",
    "is_worker",
    "join",
    "load_model",
    "local_rank",
    "main_program",
    "metrics",
    "nn",
    "node_num",
    "optim",
    "prefetch",
    "progress",
    "rules",
    "run_server",
    "save_inference_model",
    "save_persistables",
    "server_endpoints",
    "server_index",
    "server_num",
    "server_stats",
    "shrink",
    "shutdown",
    "startup_program",
    "static",
    "stop_worker",
    "transpiler",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        module = importlib.import_module(_MODULES[name])
        globals()[name] = module
        return module
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fleet' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    if name not in _LIVE:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
