"""The calls of `fleet` that make models and optimizers train: in a collective job, or beside servers.

`fleet.api` imports this file, so torch and what needs it are imported when a call is made.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, cast, overload

from fleet import env
from fleet._lazy import tool
from fleet.errors import NotSupportedError, UsageError
from fleet.runtime.jobs import kind_of
from fleet.runtime.server_calls import ServerCalls
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import Any, TypeVar

    import torch
    from torch import nn

    from fleet.runtime.collective_job import CollectiveJob
    from fleet.runtime.jobs import JobKind, Minimizing
    from fleet.runtime.modules.module_job import ModuleJob

    Model = TypeVar("Model", bound=nn.Module)


class ScriptLooker(Protocol):
    """Ends a script behind its first step, and leaves what that has shown for `fleetrun plan` (`fleet_tools`)."""

    def see_model(self, model: nn.Module) -> None:
        """Look at a model that will be trained."""

    def see_optimizer(
        self, optimizer: torch.optim.Optimizer, strategy: DistributedStrategy, job: ModuleJob | None
    ) -> None:
        """Have the first `step()` of this optimizer, or of another that was seen, be the end."""


class TrainingCalls(ServerCalls):
    """The part of `Fleet` that is about what is trained, and with which strategy."""

    def _forget(self) -> None:
        super()._forget()
        self._strategy: DistributedStrategy | None = None
        self._is_collective = False
        self._pairs: CollectiveJob | None = None
        self._plan: ScriptLooker | None = None

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device this worker trains on."""

    def distributed_model(self, model: Model) -> Model:
        """The model to train.

        In a collective job it comes back as a DistributedModel: on `fleet.device`, with the parameters of worker 0,
        its gradients averaged over the workers as the strategy says. With servers it comes back as it is; its
        `fleet.nn` modules get their tables in `init_worker`.
        """
        if self._is_collective:
            model = cast("Model", self._collective().add_model(model))
        else:
            self._module_job_beside_servers().add_model(model)
        if (watched := self._watched()) is not None:
            watched.see_model(model)
        return model

    @overload
    def distributed_optimizer(
        self, optimizer: torch.optim.Optimizer, strategy: DistributedStrategy | None = None
    ) -> torch.optim.Optimizer: ...

    @overload
    def distributed_optimizer(self, optimizer: Minimizing, strategy: Any = None) -> Any: ...

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> Any:
        """The optimizer to call `step()` on; it may be made before or after the distributed model.

        With servers it sends gradients there, where `optimizer`'s rule is applied: torch.optim's SGD, Adagrad, Adam,
        AdamW, Adamax and RMSprop work, with all their arguments. Learning-rate schedules may be made of either
        optimizer. A strategy given here replaces the one of `init`.
        """
        if (kind := kind_of(optimizer)) is not None:
            return self._distribute(kind, optimizer, strategy)
        if strategy is not None:
            self._replace_strategy(strategy)
        owner = self._collective() if self._is_collective else self._module_job_beside_servers()
        trained = owner.add_optimizer(optimizer)
        if (watched := self._watched()) is not None:
            watched.see_optimizer(trained, self._strategy or DistributedStrategy(), self._modules)
        return trained

    def _distribute(self, kind: JobKind, optimizer: object, strategy: Any) -> Any:
        """What the job of a registered kind makes of an optimizer; that job is this process's if all went well."""
        if self._watched() is not None:
            raise NotSupportedError("fleetrun plan is for models of torch; there is no plan for another kind yet")
        if isinstance(strategy, DistributedStrategy):
            self._replace_strategy(strategy)
        job = self._registered
        if job is None:
            job = kind.begin(self._server_side(), self._is_collective)
        made = job.distribute(optimizer, (self._strategy or DistributedStrategy()) if strategy is None else strategy)
        self._registered = job
        return made

    def _watched(self) -> ScriptLooker | None:
        """What `fleetrun plan` lets this script run for; None everywhere else."""
        if self._plan is None and (told := env.FLEET_PLAN.get()) is not None:
            self._plan = cast("ScriptLooker", tool("planned_script")(told))
        return self._plan

    def _module_job_beside_servers(self) -> ModuleJob:
        """The job of modules; UsageError where `init_worker` must fail, for a script meant collectively never calls it.

        A single worker needs no servers: one is in its process.
        """
        who = self._identity()
        if who.num_workers > 1 and not who.num_servers:
            raise UsageError(
                f"this job has {who.num_workers} workers and no servers; call fleet.init(is_collective=True) to train "
                "a model without tables, or start it with servers: fleetrun --server_num 2 --worker_num 2 train.py"
            )
        return self._module_job()

    def _replace_strategy(self, strategy: DistributedStrategy) -> None:
        strategy.require_supported(self._is_collective)
        self._refuse_another_strategy(strategy)
        self._strategy = strategy

    def _refuse_another_strategy(self, strategy: DistributedStrategy) -> None:
        if self._pairs is not None and strategy != self._pairs.strategy:
            raise UsageError(
                "fleet.distributed_model() was called with another strategy; give the strategy to fleet.init(), "
                "or call fleet.distributed_optimizer() first"
            )

    def _collective(self) -> CollectiveJob:
        if self._pairs is None:
            from fleet.runtime.collective_job import CollectiveJob

            strategy = self._strategy or DistributedStrategy()
            strategy.require_supported(True)  # it may have changed since fleet.init()
            self._pairs = CollectiveJob(self._identity(), strategy, self.device)
        return self._pairs

    def publish(self, url: str | PathLike[str] | None, *, every_s: float = 0.5) -> None:
        """Have the servers publish what changes in them, for those who serve; every worker calls it.

        `url` is a folder that servers and followers share; None ends it. Changed rows, deleted ones and dense
        parameters go out every `every_s` seconds, behind a base, for `fleet-serve --follow` and its like. UsageError
        where a server cannot publish there, or the stream of another model is there. `strategy.publish` is the same.

            fleet.publish("/data/clicks/stream")
        """
        from fleet.runtime.saved import saving

        if self._is_collective:
            raise UsageError("fleet.publish() has servers publish, and a collective job has none; save and serve that")
        worker = self._server_job().worker("fleet.publish()")
        if self.is_first_worker():
            saving.publish(worker, url, every_s)

    def forget(
        self,
        ids: Any,
        *,
        table: str | Collection[str] | None = None,
        folders: Sequence[str | PathLike[str]] = (),
        schema: Any = None,
        column: str | None = None,
        timeout_s: float = 60.0,
    ) -> Any:
        """Forget ids for good: their rows on all servers, and every byte of them in files; every worker calls it.

        `ids` are integers, or a file with one id in each line; with `schema` and `column` they are what stands in that
        column, and become ids as in training. Of one table, of several, or of all. What the job keeps and publishes is
        seen to; `folders` are what else was saved: checkpoints, inference copies, other streams, a cache of
        `fleet-serve`. Training waits meanwhile. Returns a report of what worker 0 has searched, behind the removal, and
        of what it has found after `timeout_s`: nothing, if all is well (docs/forget.md).

            report = fleet.forget("requests.txt", folders=["/data/checkpoints"])
        """
        if self._is_collective:
            raise UsageError("fleet.forget() is about rows on servers, and a collective job has none; leave it out")
        worker = self._server_job().worker("fleet.forget()")
        forget = tool("forgetting")
        return forget(worker, ids, table, folders, (schema, column), timeout_s, self._identity(), self.util)

    def join(self) -> AbstractContextManager[None]:
        """Inside, workers of a collective job may have different numbers of batches; see `fleet.data.shard`."""
        if self._is_collective and self.worker_num() > 1:
            return self._collective().join()
        return nullcontext()  # beside servers, loops over fleet.data see to it where steps wait for all
