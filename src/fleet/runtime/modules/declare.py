"""What a model and its optimizers ask of the servers: tables, dense parameters, running statistics, kept tensors.

Every tensor of the model has one of four homes. Rows are in tables. What an optimizer trains is dense, in the groups of
the optimizers. Running statistics of normalisation layers are a dense group of their own: workers push what they have
come to, and the servers have the mean. Everything else, such as frozen parameters and other buffers, is kept: equal on
all workers at the start, and worker 0's in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from fleet.errors import UsageError
from fleet.nn.holder import without_rows
from fleet.nn.sparse import SparseModule, TableRequest
from fleet.ps.job import rules as server_rules
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.difference import table_difference
from fleet.ps.job.from_torch import check_fresh, distinct_parameters, rule_of
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.patience import is_elastic
from fleet.ps.job.placement import place
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.worker.optimizer import ServerOptimizer, Share
from fleet.ps.worker.sending.encoding import refuse_dense_wire, with_wire
from fleet.ps.worker.sending.kept_tensors import KeptTensors, keep
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.ps.job.from_torch import Named
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.worker.asking.given_rows import GivenRows
    from fleet.roles import Identity

Tensors = list[tuple[str, torch.Tensor]]


@dataclass
class Declared:
    """What a model and its optimizers ask of the servers. Groups are numbered through all optimizers."""

    rules: list[RuleSpec]
    """The rules of every optimizer group."""
    tables: list[TableSpec] = field(default_factory=list)
    declared_by: list[str] = field(default_factory=list)
    """For each table, the name of the module that came first."""
    modules: list[tuple[SparseModule, list[int]]] = field(default_factory=list)
    """Each sparse module with the indexes of its tables."""
    table_groups: dict[int, int] = field(default_factory=dict)
    """Tables that follow an optimizer group."""
    table_lrs: dict[int, tuple[float, int | None]] = field(default_factory=dict)
    """Tables with a rule of their own: its rate, and the optimizer group that has the module, if one does."""
    caches: dict[int, int] = field(default_factory=dict)
    """Tables whose hot rows are trained where the model is, and how many."""
    first_rows: dict[int, GivenRows] = field(default_factory=dict)
    """Tables that begin with rows of the model."""
    dense: list[Named] = field(default_factory=list)
    """Trained parameters with their groups, each once."""
    statistics: Tensors = field(default_factory=list)
    """Running statistics of normalisation layers."""
    kept: Tensors = field(default_factory=list)
    """All other tensors of the model."""
    frozen: Tensors = field(default_factory=list)
    """The kept tensors that an optimizer has but that need no gradient."""
    unruled: Tensors = field(default_factory=list)
    """The `weight`s of frozen tables that have no rule, and no optimizer to follow."""
    model: nn.Module | None = None
    others: dict[str, torch.Tensor] = field(default_factory=dict)
    """Further names of tied weights, under which an inference copy has them too."""

    @property
    def used(self) -> list[int]:
        """The optimizer groups with dense parameters: dense group i on the servers is that of `used[i]`."""
        return sorted({group for _, _, group in self.dense})

    def flat(self) -> list[Named]:
        """Dense parameters and running statistics, each with its dense group."""
        used = self.used
        trained = [(name, parameter, used.index(group)) for name, parameter, group in self.dense]
        return trained + [(name, tensor, len(used)) for name, tensor in self.statistics]


def declare(model: nn.Module | None, optimizers: Sequence[ServerOptimizer]) -> Declared:
    """Find the home of every tensor; UsageError if a table has no rule or two declarations of it differ."""
    group_of: dict[int, int] = {}
    rules: list[RuleSpec] = []
    trained: list[tuple[str, torch.Tensor, int]] = []
    names = {} if model is None else {id(one): name for name, one in model.named_parameters()}
    for optimizer in optimizers:
        check_fresh(optimizer.inner)
        _refuse_strangers(optimizer, model, names)
        for group in optimizer.param_groups:
            for number, parameter in enumerate(group["params"]):
                name = names.get(id(parameter), f"group{len(rules)}.{number}")
                if group_of.setdefault(id(parameter), len(rules)) != len(rules):
                    raise UsageError(f"parameter {name!r} is in two optimizers or groups; give it to one of them")
                trained.append((name, parameter, len(rules)))
            rules.append(rule_of(optimizer.inner, group))
    found = Declared(rules, model=model)
    sparse: set[int] = set()
    for name, module in () if model is None else model.named_modules():
        if isinstance(module, SparseModule):
            module.refuse_if_held()
            sparse.add(id(module.weight))
            requests = [request.named(name) for request in module.table_requests()]
            follows = group_of.get(id(module.weight))
            is_trained = bool(optimizers) and (follows is not None or module.weight.requires_grad)
            if not is_trained and any(one.rule is None for one in requests):
                found.unruled.append((f"{name}.weight", module.weight))
            tables = [_add_table(found, one, follows, is_trained=is_trained, module=name) for one in requests]
            found.modules.append((module, tables))
            if module.first_rows is not None:
                _add_first_rows(found, found.modules[-1][1][0], module.first_rows)
    dense = [one for one in trained if id(one[1]) not in sparse]
    found.dense = distinct_parameters(one for one in dense if one[1].requires_grad)
    found.frozen = [(name, parameter) for name, parameter, _ in dense if not parameter.requires_grad]
    if model is not None:
        _find_the_rest(found, model, sparse, has_optimizer=bool(optimizers))
    known = {id(tensor) for _, tensor in found.kept}
    found.kept += [(name, tensor) for name, tensor in found.frozen if id(tensor) not in known]
    return found


def _refuse_strangers(optimizer: ServerOptimizer, model: nn.Module | None, names: Mapping[int, str]) -> None:
    """UsageError if an optimizer trains the rows of a model that is not this job's, or nothing of the one that is."""
    given = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    strangers = [one for one in given if id(one) not in names]
    has_rows = any(not is_lazy(one) and one.shape[:1] == (0,) for one in strangers)
    kind = type(optimizer.inner).__name__
    if model is None and has_rows:
        raise UsageError(
            "the optimizer has the rows of a fleet.nn module that is in no model of this job; call "
            "fleet.distributed_model(model) before fleet.init_worker()"
        )
    if model is not None and (has_rows or len(strangers) == len(given)):
        raise UsageError(
            f"{kind} has parameters of another model than the {type(model).__name__} that fleet.distributed_model() "
            f"was given; make it of that one: torch.optim.{kind}(model.parameters())"
        )


def _find_the_rest(found: Declared, model: nn.Module, sparse: set[int], *, has_optimizer: bool) -> None:
    """Find running statistics and kept tensors of the model, and the further names of tied ones."""
    device = found.dense[0][1].device if found.dense else None
    if has_optimizer:
        for prefix, module in model.named_modules():
            if isinstance(module, _NormBase):
                running = [("running_mean", module.running_mean), ("running_var", module.running_var)]
                found.statistics += [
                    (f"{prefix}.{name}".lstrip("."), tensor)
                    for name, tensor in running
                    if tensor is not None and _is_dense(tensor, device)
                ]
    home = {id(tensor): name for name, tensor, _ in found.dense}
    home |= {id(tensor): name for name, tensor in found.statistics}
    with without_rows():
        persistent = model.state_dict(keep_vars=True)
    # All names of a tensor that is tied, and buffers that are not in the state_dict.
    every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in every:
        if is_lazy(tensor):
            raise UsageError(
                f"{name!r} has no shape yet; run a batch through the model between fleet.distributed_model() and "
                "fleet.init_worker(): with torch.no_grad(): model(inputs)"
            )
        if id(tensor) in sparse:
            continue
        if id(tensor) not in home:
            home[id(tensor)] = name
            found.kept.append((name, tensor))
        elif home[id(tensor)] != name and name in persistent:
            found.others[name] = tensor


def _is_dense(tensor: torch.Tensor, device: torch.device | None) -> bool:
    return not is_lazy(tensor) and tensor.dtype == torch.float32 and device in (None, tensor.device)


def _add_first_rows(found: Declared, table: int, rows: GivenRows) -> None:
    if not found.first_rows.setdefault(table, rows).is_like(rows):
        raise UsageError(
            f"table {found.tables[table].name!r} is to begin with two sets of rows; make modules that share a table "
            "from_pretrained with the same tensor, or all but one without"
        )


def _add_table(found: Declared, request: TableRequest, group: int | None, *, is_trained: bool, module: str) -> int:
    if request.rule is None and group is None and is_trained:
        raise UsageError(
            f"table {request.name!r} has no rule: give its module rule=fleet.rules.Adagrad(lr=...), or give the "
            "model's parameters to fleet.distributed_optimizer() before fleet.init_worker()"
        )
    # Without an optimizer nothing is trained: rows are loaded without the state of the rule they were trained by.
    follows = server_rules.Sum() if group is None else found.rules[group]
    rule = follows if request.rule is None else request.rule
    spec = request.spec("", rule)
    for index, known in enumerate(found.tables):
        if known.name == spec.name:
            if known != spec:
                differs = table_difference(spec, known, f"in {found.declared_by[index]!r}")
                raise UsageError(
                    f"module {module!r} declares a table that another has: {differs}; modules that share a table have "
                    "the same settings, others a table of their own, table=..."
                )
            if found.caches.get(index, 0) != request.cache_rows:
                raise UsageError(
                    f"table {spec.name!r} is declared with cache_rows={found.caches.get(index, 0)} and with "
                    f"cache_rows={request.cache_rows}; give all modules that share it the same cache"
                )
            return index
    index = len(found.tables)
    found.tables.append(spec)
    found.declared_by.append(module)
    if request.cache_rows:
        found.caches[index] = request.cache_rows
    if request.rule is None and group is not None:
        found.table_groups[index] = group
    else:
        found.table_lrs[index] = dict(rule.args).get("lr", 0.0), group
    return index


def job_of(
    found: Declared,
    who: Identity,
    strategy: DistributedStrategy,
    dispatcher: Dispatcher | Dispatch | None,
    num_servers: int | None = None,
) -> tuple[JobSpec, KeptTensors]:
    """The declaration that goes to the servers, and the tensors they keep. A job without a mode is synchronous.

    `num_servers`: if not the present number.
    """
    num_servers = num_servers or max(1, who.num_servers)
    mode = Mode.SYNC if strategy.mode is Mode.OFF else strategy.mode
    dense, kept = DenseSpec(), list(found.kept)
    flat = [(name, tuple(tensor.shape), group) for name, tensor, group in found.flat()]
    if strategy.dense == "server" and flat:
        groups = [_dense_rule(found.rules[group]) for group in found.used]
        groups += [server_rules.Average()] if found.statistics else []
        shapes = tuple((name, shape) for name, shape, _ in flat)
        dense = DenseSpec(tuple(groups), shapes, place(flat, num_servers, dispatcher))
    else:
        kept += [(name, tensor) for name, tensor, _ in found.flat()]
    tensors = keep(kept, num_servers, found.model)
    specs = tuple(spec for spec, _ in tensors.declared)
    nonfinite = strategy.nonfinite_gradients
    if strategy.dense != "server":
        refuse_dense_wire(strategy.wire_configs)
    tables, clip_norm = tuple(found.tables), strategy.clip_norm
    first = tuple(sorted(found.tables[table].name for table in found.first_rows))
    job = JobSpec(
        who.num_workers, num_servers, str(mode), nonfinite, tables, dense, specs, first, clip_norm, is_elastic()
    )
    if strategy.gradient_scale_configs.scale_strategy != "avg":
        job = replace(job, is_summed=_check_summing(strategy, mode))
    return with_wire(job, strategy.wire_configs), tensors


def _check_summing(strategy: DistributedStrategy, mode: Mode) -> bool:
    """UsageError where servers cannot apply the sum of what workers send in a step; otherwise true."""
    said = f"strategy.gradient_scale_configs.scale_strategy = {strategy.gradient_scale_configs.scale_strategy!r}"
    if mode is not Mode.SYNC:
        raise UsageError(f"{said}: a push counts by itself in {mode} mode; leave it out, or use sync mode")
    if strategy.dense != "server":
        raise UsageError(f"{said}: dense parameters are averaged by strategy.dense = 'allreduce'; use 'server'")
    return True


def _dense_rule(rule: RuleSpec) -> RuleSpec:
    if rule.name == "adagrad_row":
        raise UsageError("rule adagrad_row keeps one sum for each row of a table; dense parameters need adagrad")
    return rule


def shares(
    found: Declared,
    job: JobSpec,
    optimizers: Sequence[ServerOptimizer],
    average: Callable[[torch.Tensor], None] | None,
) -> list[Share]:
    """What each optimizer is responsible for.

    A table with a rule of its own that no optimizer has goes with whichever steps first.
    """
    # In sync mode what the workers push becomes its mean; elsewhere each push counts by itself.
    rate = 1.0 if job.mode == Mode.SYNC else 1.0 / job.num_workers
    result, begin = [], 0
    untrained = [(name, one) for name, one in found.kept if isinstance(one, nn.Parameter) and one.requires_grad]
    for optimizer in optimizers:
        own = range(begin, begin + len(optimizer.param_groups))
        members = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        result.append(
            Share(
                found.rules[begin : own.stop],
                {index: group - begin for index, group in enumerate(found.used) if group in own},
                {table: group - begin for table, group in found.table_groups.items() if group in own},
                {table: lr for table, (lr, group) in found.table_lrs.items() if group is None or group in own},
                {len(found.used): rate} if found.statistics else {},
                average,
                [(name, tensor) for name, tensor in found.frozen if id(tensor) in members]
                + (found.unruled if not begin else []),
                untrained if job.num_workers > 1 else (),
            )
        )
        begin = own.stop
    return result
