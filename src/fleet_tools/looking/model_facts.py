"""From a model, its optimizers and, with tables, its worker to the sizes that a plan is made from."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from fleet import _native, checkpoint
from fleet.cores import num_cores
from fleet.nn.sparse import SparseModule
from fleet.optim.common import kind_of
from fleet.ps.job.spec import JobSpec
from fleet.ps.wire.budget import memory_bytes
from fleet_tools.planner.facts import DenseFacts, Machines, TableFacts
from fleet_tools.planner.memory import is_known, state_bytes

if TYPE_CHECKING:
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.strategy import DistributedStrategy

SWITCHES = (
    *("auto", "amp", "recompute", "sharding", "gradient_merge", "localsgd", "adaptive_localsgd", "post_local", "dgc"),
    *("lars", "lamb", "sync_batch_norm", "compile", "fp16_allreduce"),
)


def machine_here() -> Machines:
    """This machine: its memory, or that of the container, its cores and its GPUs."""
    num_gpus = torch.cuda.device_count()
    least = min((torch.cuda.get_device_properties(index).total_memory for index in range(num_gpus)), default=0)
    return Machines(1, memory_bytes(), num_cores(), num_gpus, least)


def switches_of(strategy: DistributedStrategy) -> tuple[str, ...]:
    """The fields of a strategy that matter to a plan and are on."""
    return tuple(name for name in SWITCHES if getattr(strategy, name))


def trained(model: nn.Module) -> list[torch.Tensor]:
    """The dense parameters of a model that need gradients, each once; those of `fleet.nn` only stand for rows."""
    rows = {id(module.weight) for module in model.modules() if isinstance(module, SparseModule)}
    return [one for one in model.parameters() if one.requires_grad and id(one) not in rows]


def dense_facts(model: nn.Module, optimizers: Sequence[Optimizer], job: JobSpec | None) -> tuple[DenseFacts, list[str]]:
    """The sizes of what is not in tables, and what is to be said about them."""
    parameters = trained(model)
    own = {id(one) for one in parameters}
    others = [one for one in (*model.parameters(), *model.buffers()) if id(one) not in own]
    served = 0 if job is None else _served_bytes(job)
    is_elsewhere = served > 0 and job is not None and job.mode != "geo"  # geo workers step by themselves
    state, notes = (0, []) if is_elsewhere else _state_bytes(optimizers, own)
    facts = DenseFacts(
        num_values=sum(one.numel() for one in parameters),
        parameter_bytes=_nbytes(parameters),
        gradient_bytes=_nbytes(parameters),
        state_bytes=state,
        other_bytes=_nbytes(others),
        server_bytes=served,
        largest_bytes=max((one.nbytes for one in parameters), default=0),
    )
    return facts, notes


def _state_bytes(optimizers: Sequence[Optimizer], own: set[int]) -> tuple[int, list[str]]:
    total, notes = 0, []
    for optimizer in optimizers:
        name = kind_of(optimizer).__name__
        if not is_known(name) or not kind_of(optimizer).__module__.startswith("torch.optim"):
            total += measured_state(optimizer)
            notes.append(f"there is no formula for the state of {name}; the estimate is what it had after this step")
            continue
        for group in optimizer.param_groups:
            mine = [one for one in group["params"] if id(one) in own]
            total += state_bytes(name, group, len(mine), _nbytes(mine))
    return total, notes


def measured_state(optimizer: Optimizer) -> int:
    """The bytes of what an optimizer keeps now."""
    kept = (value for state in optimizer.state.values() for value in state.values())
    return _nbytes(one for one in kept if isinstance(one, torch.Tensor))


def measured_gradients(model: nn.Module) -> int:
    """The bytes that gradients take now."""
    return _nbytes(one.grad for one in trained(model) if one.grad is not None)


def table_facts(job: JobSpec, lookups: Sequence[Lookup], caches: Mapping[int, int]) -> tuple[TableFacts, ...]:
    """Each table of a job, with what a batch has looked up; `caches`: how many rows each keeps where the model is."""
    found = []
    for index, spec in enumerate(job.tables):
        own = [lookup for lookup in lookups if lookup.table == index]
        rule = _native.Rule(spec.rule.name, dict(spec.rule.args))
        found.append(
            TableFacts(
                name=spec.name,
                width=spec.width,
                value_bytes=spec.width * (4 if spec.dtype == "float32" else 2),
                state_bytes=4 * rule.state_width(spec.width),
                num_ids=sum(lookup.inverse.numel() for lookup in own),
                num_distinct=sum(lookup.num_rows for lookup in own),
                max_rows=spec.max_rows,
                max_bytes=spec.max_bytes,
                memory=spec.memory,
                cache_rows=caches.get(index, 0),
            )
        )
    return tuple(found)


def process_peak() -> int:
    """The most host memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _served_bytes(job: JobSpec) -> int:
    """What the servers together hold of the dense parameters: values, and the state of their rules."""
    total = 0
    for index, group in enumerate(job.dense.groups):
        rule = _native.Rule("sum", {}) if job.mode == "geo" else _native.Rule(group.name, dict(group.args))
        arrays, scalars = checkpoint.state_form(rule.state_width)
        sizes = [job.dense.size(server, index) for server in range(job.num_servers)]
        total += sum(4 * (size * (1 + arrays) + scalars) for size in sizes if size)
    return total


def _nbytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(one.nbytes for one in tensors)
