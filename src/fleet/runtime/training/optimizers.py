"""An optimizer's state and settings under the names of the parameters, so that groups and their order may change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from fleet.collective.model import DistributedModel
from fleet.collective.modes.sharded import ShardedState
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.errors import CheckpointError, NotReadyError, UsageError
from fleet.runtime.training.elements import CheckpointSource, Want, WriteShare, local_of
from fleet.runtime.training.trees import decode, encode

log = logging.getLogger(__name__)

# Settings of how torch computes the same thing, which belong to the machine, not to the training.
_HERE = {"foreach", "fused", "capturable", "differentiable"}


@dataclass(frozen=True, eq=False)
class Optimization:
    """An optimizer of a model, as one worker has it."""

    names: Mapping[int, str]
    """The names of the model's parameters, by their ids."""
    users: Optimizer
    """The optimizer that has the settings."""
    holder: Optimizer
    """The optimizer that has the state: all of it, or that of this worker's parameters (sharding stage 1), or what this
    worker alone has come to (modes in which workers step alone)."""
    worker: int
    owner: int | None = None
    """Who writes the state that is here; None: all workers have the same and divide it."""
    steps_alone: bool = False
    """Whether each worker has a state of its own."""
    tag: str = "optimizer"
    """Its name in the checkpoint."""
    is_fixed: bool = False
    """Whether servers were told the settings, and follow changes of the learning rate alone."""
    has_state: bool = True
    """Whether the state is in the workers at all, and not on servers."""

    def __post_init__(self) -> None:
        for parameter in _parameters(self.users):
            if id(parameter) not in self.names:
                raise UsageError(
                    f"this {self.kind} trains a parameter of shape {list(parameter.shape)} that the model does not "
                    "have; give the optimizer of this model"
                )

    @classmethod
    def of_collective(cls, model: DistributedModel, optimizer: Optimizer, worker: int) -> Optimization:
        """The optimizer of a collective job."""
        policy = model.step_state.policy
        users: Optimizer = optimizer.users if isinstance(optimizer, CollectiveOptimizer) else optimizer
        holder: Optimizer = optimizer.inner if isinstance(optimizer, CollectiveOptimizer) else optimizer
        owner = worker if policy.steps_alone else None
        if isinstance(policy, ShardedState):
            if policy.zero is None:
                raise NotReadyError("this model has no optimizer yet; call fleet.distributed_optimizer() first")
            holder = policy.local_optimizer
            owner = worker if 0 in dist.get_process_group_ranks(policy.zero.process_group) else -1
        names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        return cls(names, users, holder, worker, owner, policy.steps_alone)

    @property
    def kind(self) -> str:
        """The name of the user's optimizer class."""
        return type(self.users).__name__

    def collect(self, share: WriteShare) -> tuple[dict[str, Any], dict[str, Any]]:
        """What all workers share of it and what is this worker's own, as JSON by name; tensors go to `share`."""
        settings: list[dict[str, Any]] = []
        for group in self.users.param_groups:
            values = {name: value for name, value in group.items() if name != "params"}
            names = [self.names[id(parameter)] for parameter in group["params"]]
            number = len(settings)
            key = f"settings/{number}" if self.tag == "optimizer" else f"settings/{self.tag}/{number}"
            tree = encode(values, key, _adder(share, 0), f"param_groups[{number}]")
            settings.append({"params": names, "settings": tree})
        prefix = f"own/{self.worker}/{self.tag}" if self.steps_alone else self.tag
        state = {}
        for parameter in _parameters(self.holder) if self.has_state else ():
            name = self.names[id(parameter)]
            if found := self.holder.state.get(parameter):
                add = _adder(share, self.owner)
                state[name] = encode(dict(found), f"{prefix}/{name}", add, f"the state of {name!r}")
        is_first = self.worker == 0  # worker 0 tells what is the same on all
        is_told = not self.steps_alone and (is_first or self.owner is not None)
        shared: dict[str, Any] = {self._state_key: state if is_told else {}}
        if is_first:
            shared[self.tag] = {"class": self.kind, "groups": settings}
        return shared, {self._state_key: state if self.steps_alone else {}}

    @property
    def _state_key(self) -> str:
        return f"{self.tag}_state"

    def plan(self, source: CheckpointSource) -> PlannedOptimizer:
        """What there is to load; CheckpointError if it does not fit. Nothing is changed yet."""
        saved = source.manifest.shared[self.tag]
        if saved["class"] != self.kind:
            raise CheckpointError(
                f"{source.where} was saved with {saved['class']}, and this optimizer is {self.kind}; use the same class"
            )
        return PlannedOptimizer(self, self._plan_settings(source, saved["groups"]), *self._plan_state(source))

    def _plan_settings(self, source: CheckpointSource, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        group_of = {name: number for number, group in enumerate(groups) for name in group["params"]}
        trained = [self.names[id(parameter)] for parameter in _parameters(self.users)]
        for name in trained:
            if name not in group_of:
                raise CheckpointError(f"{source.where}: its optimizer did not train {name!r}, and this one does")
        if gone := sorted(group_of.keys() - set(trained)):
            raise CheckpointError(f"{source.where}: its optimizer trained {gone[0]!r}, and this one does not")
        planned = []
        for group in self.users.param_groups:
            names = [self.names[id(parameter)] for parameter in group["params"]]
            trees = {str(tree): tree for tree in (groups[group_of[name]]["settings"] for name in names)}
            if len(trees) > 1:
                raise CheckpointError(
                    f"{source.where}: {names[0]!r} and others of one group now had different settings when saved; "
                    "divide the parameters into the groups they were in"
                )
            values = decode(next(iter(trees.values()), {"dict": {}}), source.tensor, source.where)
            kept = self._fixed(group, values, source.where) if self.is_fixed else set()
            planned.append({name: value for name, value in values.items() if name not in _HERE | kept})
        return planned

    def _fixed(self, group: Mapping[str, Any], saved: Mapping[str, Any], where: str) -> set[str]:
        """The settings that stay as they are here, for the servers were told them; those that differ are logged."""
        kept = self.users.defaults.keys() - {"lr"}
        for name in sorted(kept & saved.keys()):
            if name not in _HERE and saved[name] != group.get(name) and self.worker == 0:
                log.warning(
                    "%s: %s of %s was %r and is %r now, which is what the servers were told; it stays",
                    where,
                    name,
                    self.kind,
                    saved[name],
                    group.get(name),
                )
        return kept

    def _plan_state(self, source: CheckpointSource) -> tuple[list[tuple[torch.Tensor, dict[str, Any]]], list[Want]]:
        manifest = source.manifest
        saved = manifest.shared[self._state_key]
        if not saved:  # workers stepped alone, or nobody has stepped yet
            index = self.worker if self.steps_alone and self.worker < len(manifest.workers) else 0
            saved = manifest.workers[index][self._state_key]
        state, wants = [], []
        for group in self.holder.param_groups if self.has_state else ():
            for parameter in group["params"]:
                name = self.names[id(parameter)]
                if name not in saved:
                    continue
                making = _Making(source, parameter, group, dict(self.holder.state.get(parameter, {})), name)
                state.append((parameter, making.entries(saved[name])))
                wants += making.wants
        return state, wants


class PlannedOptimizer:
    """Settings and state that fit; `wants` are to be filled before `apply`."""

    def __init__(
        self,
        optimization: Optimization,
        settings: list[dict[str, Any]],
        state: list[tuple[torch.Tensor, dict[str, Any]]],
        wants: list[Want],
    ) -> None:
        self._optimization = optimization
        self._settings = settings
        self._state = state
        self.wants = wants

    def apply(self) -> None:
        """Give the optimizer the settings and the state, in place of what it has."""
        holder = self._optimization.holder
        if self._optimization.has_state:
            holder.state.clear()
        for parameter, entries in self._state:
            holder.state[parameter] = entries
        for group, values in zip(self._optimization.users.param_groups, self._settings, strict=True):
            for name, value in values.items():
                if isinstance(group.get(name), torch.Tensor) and isinstance(value, torch.Tensor | float | int):
                    group[name].fill_(value)  # a rate that a compiled or captured step holds on to
                else:
                    group[name] = value


class _Making:
    """Tensors for the state of one parameter, of the types and on the devices where its optimizer wants them."""

    def __init__(
        self,
        source: CheckpointSource,
        parameter: torch.Tensor,
        group: dict[str, Any],
        present: dict[str, Any],
        name: str,
    ) -> None:
        self.wants: list[Want] = []
        self._source = source
        self._parameter = parameter
        saved = source.manifest.forms.get(f"model/{name}")  # absent beside servers, which have float32
        self._saved_dtype = "float32" if saved is None else saved.dtype
        self._is_on_device = bool(group.get("fused") or group.get("capturable"))
        self._present = present

    def entries(self, tree: Any) -> dict[str, Any]:
        entries = {}
        for name, value in tree["dict"].items():
            entries[name] = decode(value, partial(self._make, name), self._source.where)
        return entries

    def _make(self, name: str, key: str) -> torch.Tensor:
        """A tensor to fill: the one that is there, if it fits."""
        form, parameter = self._source.form(key), self._parameter
        dtype: torch.dtype = getattr(torch, form.dtype)
        device = parameter.device
        if name == "step":  # torch counts on the CPU, unless the step itself runs as one kernel
            dtype, device = (torch.float32, device) if self._is_on_device else (dtype, torch.device("cpu"))
        elif form.dtype == self._saved_dtype and parameter.is_floating_point():
            dtype = parameter.dtype
        made = self._present.get(name)
        fits = isinstance(made, torch.Tensor) and (made.dtype, made.device, made.shape) == (dtype, device, form.shape)
        if not fits or isinstance(made, DTensor) != isinstance(parameter, DTensor):
            is_like = form.shape == tuple(parameter.shape) and name != "step"
            made = (
                torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
                if is_like
                else torch.zeros(form.shape, dtype=dtype, device=device)
            )
        assert isinstance(made, torch.Tensor)
        self.wants.append(Want(key, local_of(made, key)))
        return made


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _adder(share: WriteShare, owner: int | None) -> Callable[[str, torch.Tensor], None]:
    return lambda key, tensor: share.add(key, tensor, owner)
