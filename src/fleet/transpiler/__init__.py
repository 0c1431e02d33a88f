"""The transpiler: cuts a trained program into the programs of trainers and servers, by passes that each do one thing.

`DistributeTranspiler` is what users call. Below it, `arguments` reads the call, `plan` decides who holds what, `passes`
have the changes to programs, one in each file, and `programs` puts them together.
"""

from fleet.static.executor.memory import memory_optimize, release_memory
from fleet.transpiler import ps_dispatcher
from fleet.transpiler.collective import GradAllReduce, LocalSGD
from fleet.transpiler.config import DistributeTranspilerConfig
from fleet.transpiler.ps_dispatcher import HashName, PSDispatcher, RoundRobin
from fleet.transpiler.transpiler import DistributeTranspiler

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
