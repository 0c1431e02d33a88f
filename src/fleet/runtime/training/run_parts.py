"""What belongs to a run: model, optimizer, schedulers, data, extras; and what each of them gives to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from fleet.checkpoint import Account
from fleet.collective.model import DistributedModel
from fleet.errors import UsageError, UsageTypeError
from fleet.runtime.training import random_states
from fleet.runtime.training.optimizers import Optimization
from fleet.runtime.training.trees import encode
from fleet.runtime.training.write_share import WriteShare
from fleet.runtime.training.writer import Captured


@runtime_checkable
class Stateful(Protocol):
    """Anything that can say what it needs to go on, and go on from that."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any, /) -> Any: ...


@dataclass(frozen=True)
class RunParts:
    """The parts of a run on one of its workers."""

    model: DistributedModel
    optimizer: Optimizer
    schedulers: tuple[Stateful, ...]
    data: Stateful | None
    extras: Mapping[str, Stateful]
    worker: int
    num_workers: int

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise UsageTypeError(f"optimizer must be a torch.optim.Optimizer, got {type(self.optimizer).__name__}")
        others = {"scheduler": self.schedulers, "data": (self.data,) if self.data is not None else ()}
        named = [(name, one) for name, several in others.items() for one in several]
        for name, one in (*named, *((f"extras[{name!r}]", one) for name, one in self.extras.items())):
            if not isinstance(one, Stateful):
                raise UsageTypeError(f"{name} must have state_dict and load_state_dict, got a {type(one).__name__}")

    @property
    def device(self) -> torch.device:
        """Where the model of this worker is."""
        return self.model.step_state.device

    def names(self) -> list[str]:
        """What is here, to be compared between workers."""
        return [f"{len(self.schedulers)} schedulers", f"data {self.data is not None}", *sorted(self.extras)]

    def capture(self, step: int) -> Captured:
        """Everything, copied; modes in which workers differ between steps are settled first."""
        state = self.model.step_state
        if state.merge.count:
            raise UsageError(
                f"save({step}) comes after {state.merge.count} of the {state.merge.k_steps} batches whose gradients "
                "make one update; save when the update is complete"
            )
        self.model.settle()
        share = WriteShare(self.worker, self.num_workers)
        shared = self._shared(share)
        optimization = Optimization(self.model, self.optimizer, self.worker)
        described, state_of_all, own_state = optimization.collect(share)
        own = {**self._own(share), "optimizer_state": own_state}
        shared |= {"optimizer_state": state_of_all} | ({"optimizer": described} if self.worker == 0 else {})
        return Captured(Account(step, share.forms, (), own, shared), share.copies())

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

        schedulers = enumerate(self.schedulers)
        return {
            "mode": self.model.step_state.policy.name,
            "aliases": model.aliases,
            "model_extra": encode(model.others, "other/model", add, "the model's extra state"),
            "schedulers": [
                encode(one.state_dict(), f"scheduler/{number}", add, "scheduler.state_dict()")
                for number, one in schedulers
            ],
            "extras": {
                name: encode(one.state_dict(), f"extras/{name}", add, f"extras[{name!r}].state_dict()")
                for name, one in self.extras.items()
            },
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
        data = None if self.data is None else self.data.state_dict()
        return {
            "num_updates": state.num_updates,
            "scale": None if state.scale is None else state.scale.state_dict(),
            "random": encode(random_states.collect(self.device), f"{prefix}/random", add, "the random state"),
            "mode": keys,
            "data": encode(data, f"{prefix}/data", add, "data.state_dict()"),
        }


@dataclass(frozen=True)
class ModelTensors:
    """A model's parameters and lasting buffers by name, each once."""

    tensors: dict[str, torch.Tensor]
    aliases: dict[str, str]
    """Further names of a tensor that stands under another."""
    others: dict[str, Any]
    """What modules add to their state that is no tensor."""


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
