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
    from fleet import metrics as metrics
    from fleet import models as models
    from fleet import nn as nn
    from fleet import optim as optim
    from fleet import ps as ps
    from fleet.api import Fleet as Fleet
    from fleet.api import barrier_worker as barrier_worker
    from fleet.api import device as device
    from fleet.api import distributed_model as distributed_model
    from fleet.api import distributed_optimizer as distributed_optimizer
    from fleet.api import evaluate as evaluate
    from fleet.api import flush as flush
    from fleet.api import gather_state_dict as gather_state_dict
    from fleet.api import init as init
    from fleet.api import init_server as init_server
    from fleet.api import init_worker as init_worker
    from fleet.api import is_collective as is_collective
    from fleet.api import is_first_worker as is_first_worker
    from fleet.api import is_server as is_server
    from fleet.api import is_worker as is_worker
    from fleet.api import join as join
    from fleet.api import load_model as load_model
    from fleet.api import load_rows as load_rows
    from fleet.api import local_rank as local_rank
    from fleet.api import node_num as node_num
    from fleet.api import prefetch as prefetch
    from fleet.api import reshard as reshard
    from fleet.api import run_server as run_server
    from fleet.api import save_inference_model as save_inference_model
    from fleet.api import save_persistables as save_persistables
    from fleet.api import server_endpoints as server_endpoints
    from fleet.api import server_index as server_index
    from fleet.api import server_num as server_num
    from fleet.api import server_stats as server_stats
    from fleet.api import shrink as shrink
    from fleet.api import shutdown as shutdown
    from fleet.api import steps_done as steps_done
    from fleet.api import stop_worker as stop_worker
    from fleet.api import util as util
    from fleet.api import worker_endpoints as worker_endpoints
    from fleet.api import worker_index as worker_index
    from fleet.api import worker_num as worker_num
    from fleet.data.shards.steps import steps as steps
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
        "Fleet barrier_worker device distributed_model distributed_optimizer evaluate flush gather_state_dict init "
        "init_server init_worker is_collective is_first_worker is_server is_worker join load_model load_rows "
        "local_rank node_num prefetch reshard run_server save_inference_model save_persistables server_endpoints "
        "server_index server_num server_stats shrink shutdown steps_done stop_worker util worker_endpoints "
        "worker_index worker_num"
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
    "metrics": "metrics",
    "models": "models",
    "nn": "nn",
    "optim": "optim",
    "ps": "ps",
    "rules": "ps.job.rules",
}
"""Parts of the package that are public under a shorter name."""

_LIVE = {"device", "util"}
"""Not functions but values that change with init() and shutdown()."""

if not TYPE_CHECKING:  # a checker that saw __all__ would take what is imported above for private
    __getattr__, __dir__, __all__ = lazily(__name__, _HOMES, modules=_MODULES, live=_LIVE, tools={"plan"})
