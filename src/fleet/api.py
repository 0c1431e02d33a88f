"""The facade: a `Fleet` holds role, strategy and runtime; the functions of `fleet` are methods of one instance."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

from fleet.errors import NotReadyError, RoleError, UsageError, UsageTypeError
from fleet.jobfiles.ending import note_the_end
from fleet.observe.logs import show_logs, warn_of_misspelt_variables
from fleet.observe.metrics.steps import StepCount, steps
from fleet.observe.metrics.writer import begin as begin_figures
from fleet.observe.trace_files import begin as begin_trace
from fleet.ps.job.patience import is_elastic
from fleet.roles import Identity, Role, RoleMaker, discover
from fleet.runtime.threads import Threads
from fleet.runtime.training_calls import TrainingCalls
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    import torch
    import torch.distributed as dist
    from torch import nn

    from fleet.collective.world.util import Util
    from fleet.runtime.modules.evaluate import MetricLike, Step

    util: Util
    device: torch.device


class Fleet(TrainingCalls):
    """A process's view of its job. `fleet.init()` and its siblings act on one shared instance; tests make their own."""

    def __init__(self) -> None:
        self._threads = Threads()
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._device: torch.device | None = None
        self._group: dist.ProcessGroup | None = None
        self._util: Util | None = None

    def init(
        self,
        role_maker: RoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
    ) -> Fleet:
        """Learn who this process is and, in a collective job, join the other workers.

        Without a role maker the environment is asked (fleetrun, torchrun, Slurm, MPI); if it says nothing, this is a
        job of one worker. With `is_collective=True` (or a collective role maker) `torch.distributed` is ready
        afterwards; otherwise nothing is opened yet. May be called again with the same outcome; what is left out stays
        as it was.
        """
        if role_maker is not None and not isinstance(role_maker, RoleMaker):
            hint = "; write fleet.init(strategy=...)" if isinstance(role_maker, DistributedStrategy) else ""
            raise UsageTypeError(f"role_maker must be a RoleMaker, got {type(role_maker).__name__}{hint}")
        if not isinstance(is_collective, bool):
            raise UsageTypeError(f"is_collective must be True or False, got {is_collective!r}")
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise UsageTypeError(
                f"strategy must be a DistributedStrategy, got {type(strategy).__name__}; make one with "
                "fleet.DistributedStrategy() and set its fields"
            )
        if _is_being_spawned():
            raise UsageError(
                "fleet.init() was called again in a process that multiprocessing starts, as a DataLoader with spawn "
                "does; put what the script does behind if __name__ == '__main__':"
            )
        strategy = self._strategy if strategy is None else strategy
        maker = role_maker or self._role_maker or discover(is_collective)
        self._refuse_another_role(maker.identity)
        is_collective = is_collective or maker.is_collective or self._is_collective
        if strategy is not None:
            strategy.require_supported(is_collective)
            self._refuse_another_strategy(strategy)
        show_logs()
        warn_of_misspelt_variables()
        self._threads.choose()
        note_the_end()
        begin_figures()
        begin_trace()
        if is_collective:
            if maker.identity.role is Role.SERVER:
                raise RoleError(
                    f"{maker.identity.source}: a collective job has no servers; leave out is_collective=True"
                )
            from fleet.collective.world.group import start_process_group

            self._device, made = start_process_group(maker.identity)
            self._group = self._group if made is None else made
        self._role_maker, self._strategy, self._is_collective = maker, strategy, is_collective
        # Threads of a process group that is still there when the interpreter goes can abort the process.
        self._process = os.getpid()
        atexit.unregister(self._end)
        atexit.register(self._end)
        self._watch_early()
        note_the_end()  # again: the last handler to be registered is the first to run
        return self

    def _refuse_another_role(self, identity: Identity) -> None:
        if self._role_maker is not None and self._role_maker.identity != identity:
            raise RoleError(
                f"fleet.init() was called before as {self._role_maker.to_string()}; "
                "call fleet.shutdown() before changing the role"
            )

    def _end(self) -> None:
        """Runs when the script ends. `shutdown` tells servers nothing, so workers take leave first."""
        if os.getpid() != self._process:  # a fork of the process ends nothing
            return
        for job in (self._registered, self._modules):
            if job is not None:
                job.leave()
        self._end_life()
        self.shutdown()

    def shutdown(self) -> None:
        """Leave the process group if `init` made it, and forget the role. Done by itself when the script ends.

        A server that another thread of this process runs is stopped, and its port is free.
        """
        for job in (self._registered, self._modules):
            if job is not None:
                job.let_go()
        self._watch_no_more()
        if self._servers is not None:
            self._servers.close()
        if self._util is not None:
            self._util.close()
        if self._pairs is not None:
            self._pairs.strategy.close("")
        if self._is_collective:
            from fleet.collective.world.group import let_gloo_rest

            let_gloo_rest()
        if self._group is not None:
            from fleet.collective.world.group import stop_process_group

            stop_process_group(self._group)
        if self._role_maker is not None:
            self._role_maker.close()
        self._threads.close()
        steps.count = StepCount()
        self._forget()

    @property
    def util(self) -> Util:
        """Collective calls for scripts: barrier, all_reduce, all_gather, get_file_shard."""
        if self._util is None:
            from fleet.collective.world.util import Util

            self._util = Util(self._identity(), self._worker_world(), self._arrival())
        return self._util

    @property
    def device(self) -> torch.device:
        """The device this worker trains on: what fleetrun said, else a GPU if torch sees one."""
        if self._device is None:
            if self._role_maker is None:
                raise NotReadyError("fleet is not initialised; call fleet.init() first")
            if self.is_server():
                raise RoleError(f"{self._identity().name} trains nothing; fleet.device is a worker's")
            from fleet.collective.world.group import choose_device

            self._device = choose_device(self._identity())
        return self._device

    def barrier_worker(self) -> None:
        """Return when every worker has come here."""
        self.util.barrier("worker")

    def is_collective(self) -> bool:
        """Whether workers train by collectives, without servers."""
        return self._is_collective

    def evaluate(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        metrics: Mapping[str, MetricLike],
        *,
        step: Step | None = None,
        progress: bool = False,
    ) -> dict[str, float]:
        """Measure the model on this worker's batches, then over all workers: each of them gets the same values.

        Every worker calls it, with as many batches as it has, or none. A metric is one of `fleet.metrics` or a function
        of outputs and targets whose values are averaged over samples. A batch is (inputs ..., target); for another kind
        `step(model, batch)` gives outputs and targets, and behind them, where there are any, groups (or None) and
        weights of the samples. Meanwhile the model is in evaluation mode without gradients, and nothing of it changes.
        With `progress` the first worker shows a bar. Works without `fleet.init()` too. Where workers come and go, one
        that calls it measures alone.
        """
        from fleet.runtime.modules.evaluate import evaluate

        if self._role_maker is None:
            return evaluate(model, loader, metrics, step, None, shows=progress)
        if self.is_server():
            raise RoleError(f"{self._identity().name} has no model; call fleet.evaluate() on workers")
        others = self.util if not is_elastic() and self.worker_num() > 1 else None
        if others is not None:
            others.come("fleet.evaluate()")
        if self._modules is not None:
            self._modules.catch_up(others.barrier if others is not None else lambda: None)
        is_shown, is_collective = progress and self.is_first_worker(), self._is_collective
        return evaluate(model, loader, metrics, step, others, shows=is_shown, is_collective=is_collective)


def _is_being_spawned() -> bool:
    """Whether multiprocessing, which is not imported for this question, imports the script once more to spawn."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and getattr(module.current_process(), "_inheriting", False)


fleet = Fleet()
"""The one shared instance."""

init = fleet.init
shutdown = fleet.shutdown
is_first_worker = fleet.is_first_worker
is_worker = fleet.is_worker
is_server = fleet.is_server
worker_index = fleet.worker_index
worker_num = fleet.worker_num
server_index = fleet.server_index
server_num = fleet.server_num
worker_endpoints = fleet.worker_endpoints
server_endpoints = fleet.server_endpoints
local_rank = fleet.local_rank
node_num = fleet.node_num
barrier_worker = fleet.barrier_worker
is_collective = fleet.is_collective
join = fleet.join
evaluate = fleet.evaluate
distributed_model = fleet.distributed_model
distributed_optimizer = fleet.distributed_optimizer
init_server = fleet.init_server
run_server = fleet.run_server
init_worker = fleet.init_worker
stop_worker = fleet.stop_worker
save_persistables = fleet.save_persistables
load_model = fleet.load_model
load_rows = fleet.load_rows
publish = fleet.publish
save_inference_model = fleet.save_inference_model
gather_state_dict = fleet.gather_state_dict
shrink = fleet.shrink
reshard = fleet.reshard
steps_done = fleet.steps_done
server_stats = fleet.server_stats
flush = fleet.flush
forget = fleet.forget
prefetch = fleet.prefetch


def __getattr__(name: str) -> object:
    if name in ("util", "device"):  # resolved when used: the first imports torch, the second exists only after init
        return getattr(fleet, name)
    raise AttributeError(f"module 'fleet.api' has no attribute {name!r}")
