"""An optimizer's state and settings under the names of the parameters, so that groups and their order may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from fleet.collective.model import DistributedModel
from fleet.collective.modes.sharded_state import ShardedState
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.errors import CheckpointError, NotReadyError, UsageError
from fleet.runtime.training.reading import CheckpointSource, Want
from fleet.runtime.training.trees import decode, encode
from fleet.runtime.training.write_share import WriteShare, local_of

# How torch computes the same thing here: a matter of this machine, not of the training.
_HERE = {"foreach", "fused", "capturable", "differentiable"}


class Optimization:
    """The optimizer of a model, as this worker has it.

    Settings are those of `users`. State is in `holder`, which has all of it, or that of this worker's parameters
    (sharding stage 1), or what this worker alone has come to (modes in which workers step alone).
    """

    def __init__(self, model: DistributedModel, optimizer: Optimizer, worker: int) -> None:
        policy = model.step_state.policy
        self.users: Optimizer = optimizer.users if isinstance(optimizer, CollectiveOptimizer) else optimizer
        self.holder: Optimizer = optimizer.inner if isinstance(optimizer, CollectiveOptimizer) else optimizer
        self._owner: int | None = None
        if isinstance(policy, ShardedState):
            if policy.zero is None:
                raise NotReadyError("this model has no optimizer yet; call fleet.distributed_optimizer() first")
            self.holder = policy.local_optimizer
            self._owner = worker if 0 in dist.get_process_group_ranks(policy.zero.process_group) else -1
        self.steps_alone = policy.steps_alone
        self._worker = worker
        self._names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        for parameter in _parameters(self.users):
            if id(parameter) not in self._names:
                raise UsageError(
                    f"this {self.kind} trains a parameter of shape {list(parameter.shape)} that the model does not "
                    "have; give the optimizer of this model"
                )

    @property
    def kind(self) -> str:
        """The name of the user's optimizer class."""
        return type(self.users).__name__

    def collect(self, share: WriteShare) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """(settings, state, state of this worker alone) as JSON; tensors go to `share`."""
        settings: list[dict[str, Any]] = []
        for group in self.users.param_groups:
            values = {name: value for name, value in group.items() if name != "params"}
            names = [self._names[id(parameter)] for parameter in group["params"]]
            number = len(settings)
            tree = encode(values, f"settings/{number}", _adder(share, 0), f"param_groups[{number}]")
            settings.append({"params": names, "settings": tree})
        owner = self._worker if self.steps_alone else self._owner
        prefix = f"own/{self._worker}/optimizer" if self.steps_alone else "optimizer"
        state = {}
        for parameter in _parameters(self.holder):
            name = self._names[id(parameter)]
            if found := self.holder.state.get(parameter):
                state[name] = encode(dict(found), f"{prefix}/{name}", _adder(share, owner), f"the state of {name!r}")
        described = {"class": self.kind, "groups": settings}
        if self.steps_alone:
            return described, {}, state
        is_needed = self._worker == 0 or self._owner is not None  # else worker 0 says the same
        return described, state if is_needed else {}, {}

    def plan(self, source: CheckpointSource) -> Planned:
        """What there is to load; CheckpointError if it does not fit. Nothing is changed yet."""
        saved = source.manifest.shared["optimizer"]
        if saved["class"] != self.kind:
            raise CheckpointError(
                f"{source.where} was saved with {saved['class']}, and this optimizer is {self.kind}; use the same class"
            )
        return Planned(self, self._plan_settings(source, saved["groups"]), *self._plan_state(source))

    def _plan_settings(self, source: CheckpointSource, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        group_of = {name: number for number, group in enumerate(groups) for name in group["params"]}
        trained = [self._names[id(parameter)] for parameter in _parameters(self.users)]
        for name in trained:
            if name not in group_of:
                raise CheckpointError(f"{source.where}: its optimizer did not train {name!r}, and this one does")
        if gone := sorted(group_of.keys() - set(trained)):
            raise CheckpointError(f"{source.where}: its optimizer trained {gone[0]!r}, and this one does not")
        planned = []
        for group in self.users.param_groups:
            names = [self._names[id(parameter)] for parameter in group["params"]]
            trees = {str(tree): tree for tree in (groups[group_of[name]]["settings"] for name in names)}
            if len(trees) > 1:
                raise CheckpointError(
                    f"{source.where}: {names[0]!r} and others of one group now had different settings when saved; "
                    "divide the parameters into the groups they were in"
                )
            values = decode(next(iter(trees.values()), {"dict": {}}), source.tensor, source.where)
            planned.append({name: value for name, value in values.items() if name not in _HERE})
        return planned

    def _plan_state(self, source: CheckpointSource) -> tuple[list[tuple[torch.Tensor, dict[str, Any]]], list[Want]]:
        manifest = source.manifest
        saved = manifest.shared["optimizer_state"]
        if not saved:  # workers stepped alone, or nobody has stepped yet
            index = self._worker if self.steps_alone and self._worker < len(manifest.workers) else 0
            saved = manifest.workers[index]["optimizer_state"]
        state, wants = [], []
        for group in self.holder.param_groups:
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                if name not in saved:
                    continue
                making = _Making(source, parameter, group, dict(self.holder.state.get(parameter, {})), name)
                state.append((parameter, making.entries(saved[name])))
                wants += making.wants
        return state, wants


class Planned:
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
        self._saved_dtype = source.form(f"model/{name}").dtype
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
