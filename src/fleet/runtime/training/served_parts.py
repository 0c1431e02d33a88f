"""What belongs to a run beside servers and is not on them: settings, objects, random numbers of each worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from fleet.checkpoint import Account
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.worker import Worker
from fleet.runtime.training import random_states
from fleet.runtime.training.objects import RunObjects
from fleet.runtime.training.optimizers import Optimization
from fleet.runtime.training.trees import encode
from fleet.runtime.training.write_share import WriteShare
from fleet.runtime.training.writer import Captured


@dataclass(frozen=True)
class ServedParts:
    """What one worker of a job with servers gives to a checkpoint."""

    worker: Worker
    model: nn.Module
    optimizers: tuple[ServerOptimizer, ...]
    objects: RunObjects

    @property
    def index(self) -> int:
        """The index of this worker."""
        return self.worker.client.worker

    def optimizations(self) -> list[Optimization]:
        """The optimizers' settings, and the state of those that step in the workers."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        steps_alone = self.worker.policy.trains_locally
        owner = self.index if steps_alone else None
        return [
            Optimization(
                names,
                one.inner,
                one.inner,
                self.index,
                owner,
                steps_alone,
                tag,
                is_fixed=True,
                has_state=one.steps_here,
            )
            for tag, one in zip(self.tags(), self.optimizers, strict=True)
        ]

    def tags(self) -> list[str]:
        """The names of the optimizers in a checkpoint."""
        return [f"optimizer{number or ''}" for number in range(len(self.optimizers))]

    def capture(self, step: int) -> Captured:
        """Everything that this worker writes, copied."""
        share = WriteShare(self.index, self.worker.client.job.num_workers)

        def add(owner: int) -> Callable[[str, Any], None]:
            return lambda key, tensor: share.add(key, tensor, owner)

        shared: dict[str, Any] = {}
        if self.index == 0:
            shared = {"mode": self.worker.client.job.mode, "optimizers": self.tags(), **self.objects.shared(add(0))}
        prefix = f"own/{self.index}"
        random = random_states.collect(self.worker.device)
        own = {
            "num_steps": self.worker.num_steps,
            "random": encode(random, f"{prefix}/random", add(self.index), "the random state"),
            "data": self.objects.position(f"{prefix}/data", add(self.index), self.worker.data.behind),
        }
        for optimization in self.optimizations():
            state_of_all, own_state = optimization.collect(share)
            shared |= state_of_all
            own |= own_state
        return Captured(Account(step, share.forms, (), own, shared), share.copies())
