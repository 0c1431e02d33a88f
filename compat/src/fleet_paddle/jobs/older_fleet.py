"""`fleet` as scripts of other versions call it: the one Fleet object, and what it had besides."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleet.api import fleet as shared
from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.roles import PaddleCloudRoleMaker
from fleet_paddle.jobs.init_again import init_on

if TYPE_CHECKING:
    from fleet_programs.program.program import Program

_ELSEWHERE = {
    "clear_model": "start the job anew without a checkpoint",
    "load_checkpoint": "use fleet.init_server(dirname), or fluid.io.load_persistables",
    "load_one_table": "use fleet.load_model(dirname), which loads all tables",
    "save_cache_model": "use fleet.save_persistables(executor, dirname)",
    "save_checkpoint": "use fleet.save_persistables(executor, dirname)",
    "save_one_table": "use fleet.save_persistables(executor, dirname), which saves all tables",
    "shrink_dense_table": "dense parameters have no rows to drop; fleet.shrink() is for tables",
    "shrink_sparse_table": "use fleet.shrink()",
}
"""What `fleet` had in version 1.x, and what does the same."""


class OlderFleet:
    """The shared Fleet object under its methods of version 1.x."""

    @property
    def main_program(self) -> Program:
        """The program to train, after `minimize` of a distributed optimizer."""
        from fleet_programs.jobs.current import main_program_of

        return main_program_of(shared)

    @property
    def startup_program(self) -> Program:
        """The program to run first, after `minimize` of a distributed optimizer."""
        from fleet_programs.jobs.current import startup_program_of

        return startup_program_of(shared)

    def split_files(self, files: Sequence[object]) -> list[str]:
        """This worker's files; see `fleet.util.get_file_shard`.

        Scripts ask before they look at who they are: a server, which reads none, has those of the worker of its number.
        """
        if not shared.is_server():
            return shared.util.get_file_shard(files)
        shares = np.array_split(np.array([str(one) for one in files], dtype=object), shared.worker_num())
        index = shared.server_index()
        return shares[index].tolist() if index < len(shares) else []

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Write the sum of `input` over all workers into the array `output`."""
        if not isinstance(output, np.ndarray):
            raise UsageTypeError(f"all_reduce_worker: output must be a numpy array, got {type(output).__name__}")
        found = np.asarray(shared.util.all_reduce(np.asarray(input), "sum"))
        if found.size != output.size:
            raise UsageError(f"all_reduce_worker: output must have {found.size} elements, got {output.size}")
        output[...] = found.reshape(output.shape)

    def init(self, *given: Any, **named: Any) -> Any:
        """Learn who this process is; a role other than before replaces the former job (`init_again`)."""
        return init_on(shared, *given, **named)

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> Any:
        """The optimizer to call `step()` or `minimize()` on; see `distributed_optimizer`."""
        return distributed_optimizer(optimizer, strategy)

    def init_server(self, model_dir: str | PathLike[str] | None = None, var_names: Sequence[str] | None = None) -> None:
        """Prepare this server; see `init_server`."""
        init_server(model_dir, var_names)

    def load_model(self, dirname: str | PathLike[str], mode: int = 0) -> int:
        """Replace everything on the servers by a checkpoint; see `load_model`."""
        return load_model(dirname, mode)

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise AttributeError(f"fleet.{name} is not built: {_ELSEWHERE[name]}")
        return getattr(shared, name)

    def __dir__(self) -> list[str]:
        return sorted({"all_reduce_worker", "init", "main_program", "split_files", "startup_program", *dir(shared)})


fleet = OlderFleet()


def distributed_optimizer(optimizer: Any, strategy: Any = None) -> Any:
    """The optimizer of the job; one of tensors has PaddlePaddle's methods: `clear_grad`, `get_lr`, `minimize`."""
    import torch

    from fleet_paddle.imperative.optimizer.methods import with_methods

    try:
        shared.worker_num()
    except NotReadyError:  # scripts for one process leave fleet.init() out
        init_on(shared)
    made = shared.distributed_optimizer(optimizer, strategy)
    return with_methods(made) if isinstance(made, torch.optim.Optimizer) else made


def save_persistables(
    executor: Any, dirname: str | PathLike[str], main_program: Any = None, mode: int = 0
) -> Path | None:
    """Write a checkpoint; `mode` 0 is all of it, and the only one there is."""
    if mode != 0:
        raise NotSupportedError(
            f"save_persistables: mode must be 0, got {mode}; use fleet.shrink() or fleet.save_inference_model()"
        )
    return shared.save_persistables(executor, dirname, main_program)


def load_model(dirname: str | PathLike[str], mode: int = 0) -> int:
    """Replace everything on the servers by a checkpoint; `mode` 0 is all of it, and the only one there is."""
    if mode != 0:
        raise NotSupportedError(f"load_model: mode must be 0, got {mode}; a checkpoint is loaded as a whole")
    return shared.load_model(dirname)


def init_server(dirname: str | PathLike[str] | None = None, var_names: Sequence[str] | None = None) -> None:
    """Prepare this server; with `dirname` it begins with that checkpoint, and with "" as with None."""
    if var_names is not None:
        raise NotSupportedError("init_server: var_names must be left out; a checkpoint is loaded as a whole")
    shared.init_server(dirname or None)


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """PaddleCloudRoleMaker under another name, with arguments that said where its processes could meet.

    They meet at the endpoints that the environment lists, so that a file system (`path`, `hdfs_name`, `hdfs_ugi`), a
    network interface (`iface`) and time limits are not needed for that: FLEET_INIT_TIMEOUT_S is the limit.
    """

    def __init__(
        self,
        is_collective: bool = False,
        init_gloo: bool = False,
        *,
        path: str = "",  # noqa: ARG002
        hdfs_name: str = "",  # noqa: ARG002
        hdfs_ugi: str = "",  # noqa: ARG002
        iface: str = "",  # noqa: ARG002
        prefix: str = "",  # noqa: ARG002
        init_timeout_seconds: float = 3600,  # noqa: ARG002
        run_timeout_seconds: float = 9999999,  # noqa: ARG002
        **others: Any,
    ) -> None:
        super().__init__(is_collective, init_gloo, **others)


class UtilFactory:
    """What makes `fleet.util` of a context in 2.0; there is one here, whatever the context."""

    def _create_util(self, context: Any = None) -> Any:  # noqa: ARG002
        return shared.util


class TranspilerOptimizer:
    """An optimizer whose `minimize` cuts the program for servers: `distributed_optimizer` as a class, as 1.8 has it."""

    def __new__(cls, optimizer: Any, strategy: Any = None, mode: Any = None) -> Any:
        """What `distributed_optimizer` gives; `mode` must be the strategy's."""
        if mode is not None:
            raise NotSupportedError("TranspilerOptimizer: mode must be left out; the strategy says it")
        return distributed_optimizer(optimizer, strategy)
