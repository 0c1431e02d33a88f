"""The models and optimizers of a collective job, linked by the parameters they share."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim import Optimizer

from fleet.collective.compose import refuse_contradictions
from fleet.collective.model import DistributedModel
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet.nn.sparse import SparseModule
from fleet.roles import Identity
from fleet.runtime.modules import model_calls
from fleet.strategy import DistributedStrategy


class CollectiveJob:
    """A collective job in this process, made by the first `distributed_model` or `distributed_optimizer`, in any order.

    A job may train several models, each with an optimizer of its own.
    """

    def __init__(self, identity: Identity, strategy: DistributedStrategy, device: torch.device) -> None:
        strategy.require_supported(is_collective=True)  # it may have changed since fleet.init()
        refuse_contradictions(strategy)
        self.strategy = strategy
        self._num_workers = identity.num_workers
        self._device = device
        self.models: list[DistributedModel] = []
        self._given: list[nn.Module] = []
        self.optimizers: list[CollectiveOptimizer] = []

    def add_model(self, module: nn.Module) -> DistributedModel:
        """The model to train in place of `module`; it is linked to the optimizer that has its parameters."""
        if any(one is module for one in self._given):
            raise UsageError(
                "this model was given to fleet.distributed_model() before; call it once, and train what it returned"
            )
        _refuse_tables(module)
        model = DistributedModel(module, self.strategy, self._num_workers, self._device)
        self.strategy.close("fleet.distributed_model()")
        self._given.append(module)
        self.models.append(model)
        model_calls.watch(model)
        for optimizer in self.optimizers:
            self._link(model, optimizer)
        return model

    def add_optimizer(self, users: Optimizer) -> CollectiveOptimizer:
        """The optimizer to train with in place of the user's; it is linked to the model that has its parameters."""
        optimizer = CollectiveOptimizer(users, self.strategy)
        self.strategy.close("fleet.distributed_optimizer()")
        self.optimizers.append(optimizer)
        for model in self.models:
            self._link(model, optimizer)
        return optimizer

    def _link(self, model: DistributedModel, optimizer: CollectiveOptimizer) -> None:
        known = model.known_parameters()
        mine = [parameter for parameter in optimizer.parameters if id(parameter) in known]
        if not mine:
            return
        if len(mine) < len(optimizer.parameters):
            raise UsageError(
                f"this optimizer trains {len(optimizer.parameters)} parameters, of which this model has {len(mine)}; "
                "make one model of all, or an optimizer for each"
            )
        if model.step_state.optimizer is not None:
            raise NotSupportedError("this model has an optimizer already; put the parameters of both into one")
        optimizer.link(model)

    @contextmanager
    def join(self) -> Iterator[None]:
        """`DistributedModel.join` of the job's model."""
        if not self.models:
            raise NotReadyError("there is no model yet; call fleet.distributed_model() before joining")
        if len(self.models) > 1:
            raise NotSupportedError(
                f'uneven="join" takes one model, and this job has {len(self.models)}; use "pad" or "drop"'
            )
        with self.models[0].join():
            yield


def _refuse_tables(module: object) -> None:
    """Raise UsageError for a model whose rows would have to be on servers."""
    for name, one in module.named_modules() if isinstance(module, nn.Module) else ():
        if isinstance(one, SparseModule) and not one.is_held:
            raise UsageError(
                f"the rows of {name!r}, a {type(one).__name__}, are on servers, and a collective job has none; "
                "leave out is_collective=True and start it with servers: fleetrun --server_num 2 --worker_num 2"
            )
