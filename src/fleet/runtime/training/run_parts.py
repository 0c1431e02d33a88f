"""What belongs to a collective run: model, optimizer and objects; and what each of them gives to a checkpoint."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from fleet.checkpoint import Account
from fleet.collective.model import DistributedModel
from fleet.errors import UsageError, UsageTypeError
from fleet.runtime.training import random_states
from fleet.runtime.training.objects import RunObjects
from fleet.runtime.training.optimizers import Optimization
from fleet.runtime.training.trees import encode
from fleet.runtime.training.write_share import WriteShare
from fleet.runtime.training.writer import Captured


@dataclass(frozen=True)
class RunParts:
    """The parts of a collective run on one of its workers."""

    model: DistributedModel
    optimizer: Optimizer
    objects: RunObjects
    worker: int
    num_workers: int

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise UsageTypeError(f"optimizer must be a torch.optim.Optimizer, got {type(self.optimizer).__name__}")

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
