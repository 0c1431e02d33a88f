"""Fleet: distributed training for PyTorch, a parameter server and collectives behind one API.

    import fleet

    fleet.init(is_collective=True)      # who am I, and where are the others?
    print(fleet.worker_index(), fleet.worker_num())

Importing this package opens nothing and imports no torch: names are resolved when first used, and torch is imported
by `fleet.init()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily
from fleet._version import __version__ as __version__

if TYPE_CHECKING:
    from fleet import checkpoint, data, metrics, models, nn, optim
    from fleet.api import (
        Fleet,
        barrier_worker,
        device,
        distributed_model,
        distributed_optimizer,
        evaluate,
        flush,
        gather_state_dict,
        init,
        init_server,
        init_worker,
        is_collective,
        is_first_worker,
        is_server,
        is_worker,
        join,
        load_model,
        load_rows,
        local_rank,
        node_num,
        prefetch,
        reshard,
        run_server,
        save_inference_model,
        save_persistables,
        server_endpoints,
        server_index,
        server_num,
        server_stats,
        shrink,
        shutdown,
        steps_done,
        stop_worker,
        util,
        worker_endpoints,
        worker_index,
        worker_num,
    )
    from fleet.data.shards.steps import steps
    from fleet.errors import FleetError
    from fleet.observe import progress, report
    from fleet.ps.job import entries, initializers, rules
    from fleet.ps.job.entries import AlwaysEntry, CountFilterEntry, ProbabilityEntry, ShowClickEntry
    from fleet.roles import (
        MPISymetricRoleMaker,
        PaddleCloudRoleMaker,
        Role,
        UserDefinedCollectiveRoleMaker,
        UserDefinedRoleMaker,
    )
    from fleet.runtime.planning.plan_model import plan
    from fleet.runtime.serving import load_inference_model
    from fleet.runtime.training.checkpoint import Checkpoint
    from fleet.strategy import DistributedStrategy

_HOMES = {
    "AlwaysEntry": "ps.job.entries",
    "Checkpoint": "runtime.training.checkpoint",
    "CountFilterEntry": "ps.job.entries",
    "DistributedStrategy": "strategy",
    "Fleet": "api",
    "FleetError": "errors",
    "MPISymetricRoleMaker": "roles",
    "PaddleCloudRoleMaker": "roles",
    "ProbabilityEntry": "ps.job.entries",
    "Role": "roles",
    "ShowClickEntry": "ps.job.entries",
    "UserDefinedCollectiveRoleMaker": "roles",
    "UserDefinedRoleMaker": "roles",
    "barrier_worker": "api",
    "device": "api",
    "distributed_model": "api",
    "distributed_optimizer": "api",
    "evaluate": "api",
    "flush": "api",
    "gather_state_dict": "api",
    "init": "api",
    "init_server": "api",
    "init_worker": "api",
    "is_collective": "api",
    "is_first_worker": "api",
    "is_server": "api",
    "is_worker": "api",
    "join": "api",
    "load_inference_model": "runtime.serving",
    "load_model": "api",
    "load_rows": "api",
    "local_rank": "api",
    "node_num": "api",
    "plan": "runtime.planning.plan_model",
    "prefetch": "api",
    "progress": "observe",
    "report": "observe",
    "run_server": "api",
    "save_inference_model": "api",
    "save_persistables": "api",
    "server_endpoints": "api",
    "server_index": "api",
    "server_num": "api",
    "server_stats": "api",
    "reshard": "api",
    "shrink": "api",
    "shutdown": "api",
    "steps": "data.shards.steps",
    "steps_done": "api",
    "stop_worker": "api",
    "util": "api",
    "worker_endpoints": "api",
    "worker_index": "api",
    "worker_num": "api",
}

_MODULES = {
    "checkpoint": "checkpoint",
    "data": "data",
    "entries": "ps.job.entries",
    "initializers": "ps.job.initializers",
    "metrics": "metrics",
    "models": "models",
    "nn": "nn",
    "optim": "optim",
    "rules": "ps.job.rules",
}
"""Parts of the package that are public under a shorter name."""

_LIVE = {"device", "util"}
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
    "checkpoint",
    "data",
    "device",
    "distributed_model",
    "distributed_optimizer",
    "entries",
    "evaluate",
    "flush",
    "gather_state_dict",
    "init",
    "init_server",
    "init_worker",
    "initializers",
    "is_collective",
    "is_first_worker",
    "is_server",
    "is_worker",
    "join",
    "load_inference_model",
    "load_model",
    "load_rows",
    "local_rank",
    "metrics",
    "models",
    "nn",
    "node_num",
    "optim",
    "plan",
    "prefetch",
    "progress",
    "report",
    "reshard",
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
    "steps",
    "steps_done",
    "stop_worker",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, modules=_MODULES, live=_LIVE)
