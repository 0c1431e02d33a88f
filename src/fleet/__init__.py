"""Fleet: distributed training for PyTorch, a parameter server and collectives behind one API.

    import fleet

    fleet.init(is_collective=True)      # who am I, and where are the others?
    print(fleet.worker_index(), fleet.worker_num())

Importing this package opens nothing and imports no torch: names are resolved when first used, and torch is imported
by `fleet.init()`.
"""

from typing import TYPE_CHECKING

from fleet._lazy import lazily
from fleet._version import __version__ as __version__

if TYPE_CHECKING:
    from fleet import checkpoint as checkpoint
    from fleet import data as data
    from fleet import job as job
    from fleet import metrics as metrics
    from fleet import models as models
    from fleet import nn as nn
    from fleet import optim as optim
    from fleet import ps as ps
    from fleet.api import *  # noqa: F403 - what is defined there: `Fleet`, and the methods of the one shared instance
    from fleet.data.shards.steps import steps as steps
    from fleet.engines import ray as ray
    from fleet.errors import FleetError as FleetError
    from fleet.observe import progress as progress
    from fleet.observe import report as report
    from fleet.ps.job import entries as entries
    from fleet.ps.job import initializers as initializers
    from fleet.ps.job import rules as rules
    from fleet.ps.job.entries import AlwaysEntry as AlwaysEntry
    from fleet.ps.job.entries import CountFilterEntry as CountFilterEntry
    from fleet.ps.job.entries import ProbabilityEntry as ProbabilityEntry
    from fleet.ps.job.entries import ShowClickEntry as ShowClickEntry
    from fleet.roles import MPISymetricRoleMaker as MPISymetricRoleMaker
    from fleet.roles import PaddleCloudRoleMaker as PaddleCloudRoleMaker
    from fleet.roles import Role as Role
    from fleet.roles import UserDefinedCollectiveRoleMaker as UserDefinedCollectiveRoleMaker
    from fleet.roles import UserDefinedRoleMaker as UserDefinedRoleMaker
    from fleet.runtime.serving import load_inference_model as load_inference_model
    from fleet.runtime.training.checkpoint import Checkpoint as Checkpoint
    from fleet.strategy import DistributedStrategy as DistributedStrategy
    from fleet_tools.looking.plan_model import plan as plan

_HOMES = {
    "api": (
        "Fleet barrier_worker device distributed_model distributed_optimizer evaluate flush forget gather_state_dict "
        "init init_server init_worker is_collective is_first_worker is_server is_worker join load_model load_rows "
        "local_rank node_num prefetch publish reshard run_server save_inference_model save_persistables "
        "server_endpoints server_index server_num server_stats shrink shutdown steps_done stop_worker util "
        "worker_endpoints worker_index worker_num"
    ),
    "data.shards.steps": "steps",
    "errors": "FleetError",
    "observe": "progress report",
    "ps.job.entries": "AlwaysEntry CountFilterEntry ProbabilityEntry ShowClickEntry",
    "roles": "MPISymetricRoleMaker PaddleCloudRoleMaker Role UserDefinedCollectiveRoleMaker UserDefinedRoleMaker",
    "runtime.serving": "load_inference_model",
    "runtime.training.checkpoint": "Checkpoint",
    "strategy": "DistributedStrategy",
}

_MODULES = {
    "checkpoint": "checkpoint",
    "data": "data",
    "entries": "ps.job.entries",
    "initializers": "ps.job.initializers",
    "job": "job",
    "metrics": "metrics",
    "models": "models",
    "nn": "nn",
    "optim": "optim",
    "ps": "ps",
    "ray": "engines.ray",
    "rules": "ps.job.rules",
}
"""Parts of the package that are public under a shorter name."""

_LIVE = {"device", "util"}
"""Not functions but values that change with init() and shutdown()."""

if not TYPE_CHECKING:  # a checker that saw __all__ would take what is imported above for private
    __getattr__, __dir__, __all__ = lazily(__name__, _HOMES, modules=_MODULES, live=_LIVE, tools={"plan"})
