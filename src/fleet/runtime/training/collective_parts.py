"""What belongs to a collective run and what it gives to a checkpoint; and a checkpoint that is loaded into it.

Everything is checked, on all workers, before anything is changed on one.
"""

import logging
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from fleet.checkpoint import Account, Form
from fleet.collective.model import DistributedModel
from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet.runtime.training import random_states
from fleet.runtime.training.elements import CheckpointSource, LazyTensors, Want, WriteShare, local_of
from fleet.runtime.training.objects import RunObjects, RunWorkers, damage, together
from fleet.runtime.training.optimizers import Optimization, PlannedOptimizer
from fleet.runtime.training.trees import decode, encode
from fleet.runtime.training.writer import Captured


@dataclass(frozen=True)
class RunParts:
    """The parts of a collective run on one of its workers."""

    model: DistributedModel
    optimizer: Optimizer
    objects: RunObjects
    worker: int
    num_workers: int

    @property
    def device(self) -> torch.device:
        """Where the model of this worker is."""
        return self.model.step_state.device

    def capture(self, step: int) -> Captured:
        """Copy everything; modes in which workers differ between steps are settled first."""
        state = self.model.step_state
        if state.merge.count:
            raise UsageError(
                f"save({step}) comes after {state.merge.count} of the {state.merge.k_steps} batches whose gradients "
                "make one update; save when the update is complete"
            )
        self.model.settle()
        share = WriteShare(self.worker, self.num_workers)
        shared = self._shared(share)
        optimization = Optimization.of_collective(self.model, self.optimizer, self.worker)
        state_of_all, own_state = optimization.collect(share)
        account = Account(step, share.forms, (), self._own(share) | own_state, shared | state_of_all)
        return Captured(account, share.copies())

    def _shared(self, share: WriteShare) -> dict[str, Any]:
        """The model, and what worker 0 has of the others. All workers come here, for some tensors are divided."""
        model = model_tensors(self.model.module)
        for name, tensor in model.tensors.items():
            share.add(f"model/{name}", tensor, None if isinstance(tensor, nn.Parameter) else 0)
        if self.worker != 0:
            return {}

        def add(key: str, tensor: torch.Tensor) -> None:
            if isinstance(tensor, DTensor):
                raise UsageTypeError(f"{key!r} is divided among workers; give whole tensors in extras")
            share.add(key, tensor, 0)

        return {
            "mode": self.model.step_state.policy.name,
            "aliases": model.aliases,
            "model_extra": encode(model.others, "other/model", add, "the model's extra state"),
            **self.objects.shared(add),
        }

    def _own(self, share: WriteShare) -> dict[str, Any]:
        """What this worker alone knows."""
        state, prefix = self.model.step_state, f"own/{self.worker}"

        def add(key: str, tensor: torch.Tensor) -> None:
            share.add(key, tensor, self.worker)

        keys = {}
        for name, tensor in state.policy.state_dict().items():
            keys[name] = f"{prefix}/mode/{name}"
            add(keys[name], tensor)
        return {
            "num_updates": state.num_updates,
            "scale": None if state.scale is None else state.scale.state_dict(),
            "random": encode(random_states.collect(self.device), f"{prefix}/random", add, "the random state"),
            "mode": keys,
            "data": self.objects.position(f"{prefix}/data", add),
        }


@dataclass(frozen=True)
class ModelTensors:
    """A model's parameters and lasting buffers by name, each once."""

    tensors: dict[str, torch.Tensor]
    aliases: dict[str, str]
    """Further names of tied tensors, each with the name that its tensor stands under."""
    others: dict[str, Any]
    """What modules add to their state beside tensors."""


def model_tensors(module: nn.Module) -> ModelTensors:
    """The tensors of a model, by name; sharded modules that are still gathered from a batch are divided again."""
    tensors: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    others: dict[str, Any] = {}
    first: dict[int, str] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if not isinstance(value, torch.Tensor) or name.rpartition(".")[2] == "_extra_state":
            others[name] = value
        elif id(value) in first:
            aliases[name] = first[id(value)]
        else:
            tensors[name] = value
            first[id(value)] = name
    return ModelTensors(tensors, aliases, others)


log = logging.getLogger(__name__)


class Restore:
    """Loads one checkpoint into one run."""

    def __init__(self, parts: RunParts, source: CheckpointSource) -> None:
        self._parts = parts
        self._source = source
        self._shared = source.manifest.shared
        workers = source.manifest.workers
        self._is_new = parts.worker >= len(workers)
        self._own = workers[0 if self._is_new else parts.worker]

    def run(self, world: RunWorkers) -> None:
        """Load it; every worker calls this."""
        source, parts = self._source, self._parts
        model, optimizer = together(world, self._plan)
        together(world, lambda: source.check_files(parts.worker, parts.num_workers))
        parts.objects.load(world, source, self._own)

        def change() -> None:
            try:
                source.fill(model)
                source.fill(optimizer.wants)
                optimizer.apply()
                self._load_the_rest()
            except Exception as error:
                raise CheckpointError(f"{source.where} is half loaded, begin again: {error!r}") from error

        together(world, change)  # nobody trains before all have loaded

    def _plan(self) -> tuple[list[Want], PlannedOptimizer]:
        with damage(self._source.where):
            wants = self._plan_model()
            optimization = Optimization.of_collective(self._parts.model, self._parts.optimizer, self._parts.worker)
            planned = optimization.plan(self._source)
            self._parts.objects.check(self._source, self._own, self._parts.worker == 0)
            for owned in (self._own, *self._source.manifest.workers):
                _ = [owned[name] for name in ("num_updates", "scale", "random", "mode")]
            _ = [self._shared[name] for name in ("mode", "model_extra")]
        return wants, planned

    def _plan_model(self) -> list[Want]:
        here, forms, where = model_tensors(self._parts.model.module), self._source.manifest.forms, self._source.where
        aliases = self._shared["aliases"]
        saved = {key.removeprefix("model/") for key in forms if key.startswith("model/")}
        wants = []
        for name, tensor in here.tensors.items():
            key = aliases.get(name, name)
            if key not in saved:
                raise CheckpointError(f"{where} has no {name!r}, which this model has; load it into the model it is of")
            local = local_of(tensor, name)
            form: Form = forms[f"model/{key}"]
            if form.shape != local.form.shape:
                raise CheckpointError(
                    f"{where}: {name!r} is {list(form.shape)} there and {list(local.form.shape)} in this model; "
                    "load it into the model it is of"
                )
            wants.append(Want(f"model/{key}", local))
        names = here.tensors.keys() | here.aliases.keys()
        if unknown := sorted((saved | aliases.keys()) - names):
            raise CheckpointError(
                f"{where} has {unknown[0]!r}, which this model does not have; load it into the model it is of"
            )
        return wants

    def _load_the_rest(self) -> None:
        parts, own, source = self._parts, self._own, self._source
        state = parts.model.step_state
        others = decode(self._shared["model_extra"], source.tensor, source.where)
        if others:
            parts.model.module.load_state_dict(others, strict=False)
        state.merge.count = 0
        parts.model.zero_grad()
        state.num_updates = int(own["num_updates"])
        if state.scale is not None and own["scale"] is not None:
            state.scale.load_state_dict(own["scale"])
        self._load_mode()
        if self._is_new:
            random = decode(source.manifest.workers[0]["random"], source.tensor, source.where)
            random_states.derive(random["torch"], parts.worker, parts.device)
        else:
            random_states.restore(decode(own["random"], source.tensor, source.where), parts.device)

    def _load_mode(self) -> None:
        """A mode of the same kind goes on; another begins, from the parameters that were loaded."""
        policy, saved = self._parts.model.step_state.policy, self._shared["mode"]
        all_keys = [worker["mode"] for worker in self._source.manifest.workers]
        if policy.name == saved:
            states = [LazyTensors(self._source, keys) for keys in all_keys]
            policy.load_state_dict(cast(list[dict[str, torch.Tensor]], states), self._parts.worker)
            return
        policy.load_state_dict([policy.state_dict()] * self._parts.num_workers, self._parts.worker)
        kept = [key for keys in all_keys for key in keys.values() if self._source.form(key).size > 1]
        if kept and self._parts.worker == 0:
            where = self._source.where
            log.warning("%s was saved with %s; what that kept (such as %s) is dropped", where, saved, kept[0])
