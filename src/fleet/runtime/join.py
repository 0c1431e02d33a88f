"""`fleet.init_worker()`: a model and an optimizer become the declaration of a job, and a worker that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from fleet import env
from fleet.errors import UsageError
from fleet.nn.sparse import SparseModule, TableRequest
from fleet.ps.client import Client
from fleet.ps.distinct import distinct
from fleet.ps.flat import FlatParameters
from fleet.ps.from_torch import check_fresh, rule_of
from fleet.ps.modes import POLICIES, make_push_policy
from fleet.ps.modes.base import Setup
from fleet.ps.optimizer import ServerOptimizer
from fleet.ps.placement import place
from fleet.ps.spec import DenseSpec, JobSpec, RuleSpec, TableSpec
from fleet.ps.worker import Worker
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import Mode
from fleet.strategy.parameter_server import ASyncConfigs

if TYPE_CHECKING:
    from fleet.ps.distinct import Named
    from fleet.ps.placement import Dispatch, Dispatcher
    from fleet.ps.transport import Transport
    from fleet.roles import Identity


@dataclass
class Declared:
    """What a model and an optimizer ask of the servers."""

    tables: list[TableSpec]
    modules: list[tuple[SparseModule, list[int]]]
    """Each sparse module with the indexes of its tables."""
    table_groups: dict[int, int]
    """Tables that follow an optimizer group."""
    table_lrs: dict[int, float]
    """Tables with a rule of their own."""
    dense: list[Named]
    """Trained parameters; the group is that of the optimizer."""
    rules: list[RuleSpec]
    """Of every optimizer group."""
    frozen: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    """Parameters that the optimizer has but that need no gradient."""


def declare(model: nn.Module | None, optimizer: ServerOptimizer | None) -> Declared:
    """Find the tables and the dense parameters; UsageError if a table has no rule or two declarations of it differ."""
    if optimizer is not None:
        check_fresh(optimizer.inner)
    groups = [] if optimizer is None else optimizer.param_groups
    rules = [] if optimizer is None else [rule_of(optimizer.inner, group) for group in groups]
    group_of = {id(parameter): index for index, group in enumerate(groups) for parameter in group["params"]}
    found = Declared([], [], {}, {}, [], rules)
    names = {} if model is None else {id(parameter): name for name, parameter in model.named_parameters()}
    sparse: set[int] = set()
    for name, module in () if model is None else model.named_modules():
        if isinstance(module, SparseModule):
            sparse.add(id(module.weight))
            requests = [request.named(name) for request in module.table_requests()]
            indexes = [_add_table(found, request, group_of.get(id(module.weight)), rules) for request in requests]
            found.modules.append((module, indexes))
    for index, group in enumerate(groups):
        for number, parameter in enumerate(group["params"]):
            name = names.get(id(parameter), f"group{index}.{number}")
            if id(parameter) not in sparse and parameter.requires_grad:
                found.dense.append((name, parameter, index))
            elif id(parameter) not in sparse:
                found.frozen.append((name, parameter))
    found.dense = distinct(found.dense)
    return found


def _add_table(found: Declared, request: TableRequest, group: int | None, rules: Sequence[RuleSpec]) -> int:
    if request.rule is None and group is None:
        raise UsageError(
            f"table {request.name!r} has no rule: give its module rule=fleet.rules.Adagrad(lr=...), or give the "
            "model's parameters to fleet.distributed_optimizer() before fleet.init_worker()"
        )
    rule = request.rule if request.rule is not None else rules[group or 0]
    spec = request.spec("", rule)
    for index, known in enumerate(found.tables):
        if known.name == spec.name:
            if known != spec:
                raise UsageError(f"table {spec.name!r} is declared twice and differently: {spec} and {known}")
            return index
    index = len(found.tables)
    found.tables.append(spec)
    if request.rule is None:
        found.table_groups[index] = group or 0
    else:
        found.table_lrs[index] = dict(rule.args).get("lr", 0.0)
    return index


def job_of(
    found: Declared, who: Identity, strategy: DistributedStrategy, dispatcher: Dispatcher | Dispatch | None
) -> JobSpec:
    """The declaration that goes to the servers. A job without a mode is synchronous."""
    num_servers = max(1, who.num_servers)
    mode = Mode.SYNC if strategy.mode is Mode.OFF else strategy.mode
    dense = DenseSpec()
    if strategy.dense == "server" and found.dense:
        used = sorted({group for _, _, group in found.dense})
        parameters = [(name, tuple(parameter.shape), used.index(group)) for name, parameter, group in found.dense]
        dense = DenseSpec(
            tuple(_dense_rule(found.rules[group]) for group in used),
            tuple((name, shape) for name, shape, _ in parameters),
            place(parameters, num_servers, dispatcher),
        )
    nonfinite = strategy.nonfinite_gradients
    return JobSpec(who.num_workers, num_servers, str(mode), nonfinite, tuple(found.tables), dense)


def _dense_rule(rule: RuleSpec) -> RuleSpec:
    if rule.name == "adagrad_row":
        raise UsageError("rule adagrad_row keeps one sum for each row of a table; dense parameters need adagrad")
    return rule


def start_worker(
    model: nn.Module | None,
    optimizer: ServerOptimizer | None,
    who: Identity,
    strategy: DistributedStrategy,
    *,
    connect: Callable[[], Sequence[Transport]],
    dispatcher: Dispatcher | Dispatch | None = None,
    average: Callable[[torch.Tensor], None] | None = None,
) -> Worker:
    """Declare the job, agree on the first dense parameters, and bind model and optimizer to the servers.

    Worker 0's parameters are everybody's, unless the servers were started from a checkpoint: then theirs are.
    """
    found = declare(model, optimizer)
    job = job_of(found, who, strategy, dispatcher)
    device = found.dense[0][1].device if found.dense else _device_of(model)
    if strategy.dense == "allreduce" and POLICIES[job.mode].trains_locally:
        raise UsageError(
            "strategy.dense = 'allreduce' and geo mode both keep dense parameters in the workers; choose one"
        )
    used = sorted({group for _, _, group in found.dense})
    flats: list[FlatParameters | None] = []

    def take() -> FlatParameters | None:
        flats.append(_flat(found, job, used))
        return flats[0] if job.dense.groups else None

    worker = enter(Client(connect(), who.index, job), take, device, strategy.a_sync_configs)
    worker.flat = flats[0]
    worker.has_optimizer = optimizer is not None
    for module, indexes in found.modules:
        module.bind(worker, indexes)
    if optimizer is not None:
        optimizer.bind(
            worker,
            found.rules,
            used if job.dense.groups else [],
            found.table_groups,
            found.table_lrs,
            average if strategy.dense == "allreduce" else None,
            found.frozen,
        )
    return worker


def enter(
    client: Client, take: Callable[[], FlatParameters | None], device: torch.device, configs: ASyncConfigs
) -> Worker:
    """Declare the job to the servers, then take the dense parameters that they hold and agree on their first values.

    Those are worker 0's, unless the servers have some already.
    """
    job = client.job
    policy = None
    try:
        is_started, version = client.declare()
        flat = take()
        if flat is not None and client.worker == 0 and not is_started:
            groups = range(len(job.dense.groups))
            client.start([[flat.values(server, group) for group in groups] for server in range(client.num_servers)])
        policy = make_push_policy(
            Setup(
                client,
                flat,
                device,
                version,
                k_steps=max(1, configs.k_steps),
                max_merge=configs.max_merge_var_num,
                queue_size=configs.send_queue_size,
                wait_s=configs.send_wait_times * 0.01,
                independent_receive=configs.independent_recv_thread,
                pushes_before_receive=configs.min_send_grad_num_before_recv,
            )
        )
        policy.refresh()
    except BaseException:
        client.close()
        if policy is not None:
            policy.close()
        raise
    return Worker(client, policy, flat, device, version if job.mode == Mode.SYNC else 0)


@torch.no_grad()
def share_parameters(model: nn.Module, broadcast: Callable[[torch.Tensor], None]) -> None:
    """Worker 0's dense parameters become everybody's."""
    for parameter in model.parameters():
        broadcast(parameter.data)


def _flat(found: Declared, job: JobSpec, used: Sequence[int]) -> FlatParameters | None:
    if not found.dense:
        return None
    parameters = [(name, parameter, used.index(group)) for name, parameter, group in found.dense]
    blocks = job.dense.blocks or place([(name, tuple(p.shape), group) for name, p, group in parameters], 1)
    return FlatParameters(parameters, blocks)


def _device_of(model: nn.Module | None) -> torch.device:
    parameter = None if model is None else next(iter(model.parameters()), None)
    if parameter is not None:
        return parameter.device
    return torch.device("cuda" if env.FLEET_DEVICE.get() == "CUDA" else "cpu")
