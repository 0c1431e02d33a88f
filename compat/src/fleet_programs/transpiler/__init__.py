"""The transpiler: cuts a trained program into the programs of trainers and servers, by passes that each do one thing.

`DistributeTranspiler` is what users call. Below it, `arguments` reads the call, `plan` decides who holds what, `passes`
have the changes to programs, one in each file, and `programs` puts them together.
"""

from fleet_programs.executor.memory import memory_optimize, release_memory
from fleet_programs.transpiler.collective import GradAllReduce, LocalSGD
from fleet_programs.transpiler.planning import ps_dispatcher
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig
from fleet_programs.transpiler.planning.ps_dispatcher import HashName, PSDispatcher, RoundRobin
from fleet_programs.transpiler.transpiler import DistributeTranspiler

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "GradAllReduce",
    "HashName",
    "LocalSGD",
    "PSDispatcher",
    "RoundRobin",
    "memory_optimize",
    "ps_dispatcher",
    "release_memory",
]
