"""`fleet.plan(model, batch)`: the plan of a model that is there, without a script."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from fleet.collective.model import DistributedModel
from fleet.errors import UsageError, UsageTypeError
from fleet.nn.sparse import SparseModule
from fleet.roles import Identity, Role
from fleet.runtime.modules.module_job import ModuleJob
from fleet.runtime.modules.servers import Servers
from fleet.strategy import DistributedStrategy
from fleet.strategy.sizes import size_bytes
from fleet_tools.looking.first_step import FirstStep
from fleet_tools.looking.model_facts import machine_here
from fleet_tools.planner.choose import make_plan
from fleet_tools.planner.facts import Question, Workload
from fleet_tools.planner.plan import Plan

Loss = Callable[[Any], torch.Tensor]


def plan(
    model: nn.Module,
    batch: Any,
    optimizer: Optimizer | None = None,
    *,
    loss: Loss | None = None,
    rows: Mapping[str, int] | None = None,
    hosts: int = 1,
    cores: int | None = None,
    host_memory: int | str | None = None,
    num_gpus: int | None = None,
    gpu_memory: int | str | None = None,
    network_gbit: float | None = None,
) -> Plan:
    """What fits where, in which mode to train and why: from the model, one batch and a step on a copy of the model.

    `batch` is what the model is called with: a tuple or list of arguments, a dict of named ones, or the one argument.
    `optimizer` is one made for the model, Adam if left out; `loss` makes a number of what the model returns, the mean
    of it if left out. `rows` says how many rows tables will have. The rest describes other machines than this one. The
    model and the optimizer stay as they are; the copy takes as much memory again.
    """
    if not isinstance(model, nn.Module):
        raise UsageTypeError(f"fleet.plan(): model must be a torch.nn.Module, got {type(model).__name__}")
    sparse = [module for module in model.modules() if isinstance(module, SparseModule)]
    if isinstance(model, DistributedModel) or any(module.is_bound for module in sparse):
        raise UsageError("fleet.plan() takes a model that is not distributed yet; call it before distributed_model()")
    given: dict[str, Any] = {
        "num_hosts": hosts,
        "num_cores": cores,
        "host_memory": None if host_memory is None else size_bytes("host_memory", host_memory),
        "num_gpus": num_gpus,
        "gpu_memory": None if gpu_memory is None else size_bytes("gpu_memory", gpu_memory),
        "network": None if network_gbit is None else network_gbit * 1e9 / 8,
    }
    machines = replace(machine_here(), **{name: value for name, value in given.items() if value is not None})
    if machines.num_gpus and not machines.gpu_memory:
        raise UsageError(f"num_gpus = {machines.num_gpus}: say how large they are, such as gpu_memory='80GiB'")
    return make_plan(_measured(model, batch, optimizer, loss, bool(sparse)), Question(machines, dict(rows or {})))


def _measured(
    model: nn.Module, batch: Any, optimizer: Optimizer | None, loss: Loss | None, has_tables: bool
) -> Workload:
    """The facts of one step of a copy, with its tables in this process."""
    if not any(one.requires_grad for one in model.parameters()):
        raise UsageError(f"fleet.plan(): this {type(model).__name__} has nothing to train")
    own = copy.deepcopy(model).train()
    users = _optimizer_of(own, model, optimizer)
    strategy = DistributedStrategy()
    if not has_tables:
        return _step(own, users, None, strategy, batch, loss)
    job = ModuleJob(average=lambda _: None, add_up=lambda _: None)
    job.add_model(own)
    trained = job.add_optimizer(users)
    job.init_worker(Servers(Identity(Role.WORKER, 0, 1, "fleet.plan()")), strategy, None)
    try:
        return _step(own, trained, job, strategy, batch, loss)
    finally:
        job.stop_worker()


def _step(
    model: nn.Module,
    optimizer: Optimizer,
    job: ModuleJob | None,
    strategy: DistributedStrategy,
    batch: Any,
    loss: Loss | None,
) -> Workload:
    looker = FirstStep(model)
    try:
        with torch.enable_grad():
            outputs = _call(model, batch)
            value = _mean(outputs) if loss is None else loss(outputs)
            value.backward()
        worker = None if job is None else job.worker("fleet.plan()")
        return looker.finish(optimizer, strategy, worker, optimizer.step)
    finally:
        looker.stop()


def _call(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list) and not hasattr(batch, "_fields"):  # fleet.data.Batch is one argument
        return model(*batch)
    return model(batch)


def _optimizer_of(own: nn.Module, model: nn.Module, optimizer: Optimizer | None) -> Optimizer:
    """One like the user's, for the parameters of the copy."""
    if optimizer is None:
        return torch.optim.Adam(own.parameters())
    if not isinstance(optimizer, Optimizer):
        raise UsageTypeError(f"fleet.plan(): optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    twins = {id(one): twin for one, twin in zip(model.parameters(), own.parameters(), strict=True)}
    strangers = [one for group in optimizer.param_groups for one in group["params"] if id(one) not in twins]
    if strangers:
        raise UsageError("fleet.plan(): the optimizer has parameters that are not the model's; make it of the model's")
    groups = [{**group, "params": [twins[id(one)] for one in group["params"]]} for group in optimizer.param_groups]
    made: Optimizer = type(optimizer)(groups, lr=optimizer.defaults["lr"])  # type: ignore[call-arg]
    return made


def _mean(outputs: Any) -> torch.Tensor:
    trained = [one for one in tree_leaves(outputs) if isinstance(one, torch.Tensor) and one.requires_grad]
    if not trained:
        raise UsageError("fleet.plan(): nothing that the model returned has a gradient; give loss=..., a function")
    return torch.stack([one.float().mean() for one in trained]).sum()
