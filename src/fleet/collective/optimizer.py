"""`fleet.distributed_optimizer` in a collective job: the user's optimizer, stepping together with the other workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from fleet.collective import tuning
from fleet.collective.agree import world
from fleet.collective.average import broadcast_
from fleet.collective.compose import replace_optimizer
from fleet.collective.model import DistributedModel
from fleet.collective.step import StepState
from fleet.collective.worlds import dtype_name
from fleet.errors import NotReadyError, UsageTypeError
from fleet.strategy import DistributedStrategy


class DistributedOptimizer(Optimizer):
    """Stands for a torch optimizer: same param_groups, so learning-rate schedules and changes work as usual.

    `step()` merges, unscales and clips what backward left, updates the parameters and lets the workers come together
    as the strategy says. `inner` is the optimizer that updates parameters on this worker.
    """

    def __init__(self, users: Optimizer, strategy: DistributedStrategy) -> None:
        if not isinstance(users, Optimizer):
            raise UsageTypeError(f"optimizer must be a torch.optim.Optimizer, got {type(users).__name__}")
        if isinstance(users, DistributedOptimizer):
            raise UsageTypeError("this optimizer is distributed already; call fleet.distributed_optimizer() once")
        # Not Optimizer.__init__, which would make groups of its own: everything is the user's.
        self.__dict__.update(users.__dict__)
        self.users = users
        self.inner = users
        self._strategy = strategy
        self._linked: StepState | None = None

    def link(self, model: DistributedModel) -> None:
        """The model whose parameters this trains is there."""
        state = model.step_state
        names = {parameter: name for name, parameter in model.module.named_parameters()}
        self.users = replace_optimizer(self.users, self._strategy, names)
        if model.fuses:
            tuning.fuse(self.users)
        self._linked, state.optimizer = state, self
        self.inner = state.mode.take(self.users)
        self.__dict__.update({name: self.users.__dict__[name] for name in ("param_groups", "defaults", "state")})

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What it trains, group by group."""
        return [parameter for group in self.users.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, or wait for more batches if gradients are merged."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        state = self._linked
        if state is None:
            raise NotReadyError("this optimizer has no model; call fleet.distributed_model() with the one it trains")
        if not state.merge.add():
            return loss
        if not self._finish_gradients(state):
            state.mode.before_step()
            self.inner.step()
            state.num_updates += 1
        state.mode.stepped(state.loss)
        state.loss = None
        return loss

    def _finish_gradients(self, state: StepState) -> bool:
        """Scale and clip what backward left; whether it overflowed."""
        strategy = self._strategy
        factor = state.merge.factor
        if strategy.gradient_scale_configs.scale_strategy != "avg":
            factor *= state.num_workers
        clips = strategy.gradient_clip_norm is not None or strategy.gradient_clip_value is not None
        if state.scale is None and factor == 1.0 and not clips:
            return False
        gradients = [one.grad for one in self.parameters if one.grad is not None]
        if state.scale is not None:
            if state.unscale_(gradients, factor):
                return True
        elif factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        if strategy.gradient_clip_norm is not None and not strategy.dgc:  # DGC clips before it sends
            torch.nn.utils.clip_grad_norm_(self.parameters, strategy.gradient_clip_norm)
        if strategy.gradient_clip_value is not None:
            torch.nn.utils.clip_grad_value_(self.parameters, strategy.gradient_clip_value)
        return False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, unless they are part of an update that is still being merged."""
        if self._linked is None or self._linked.merge.count == 0:
            self.users.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """This worker's: with sharding that of its share. `fleet.Checkpoint` saves the whole."""
        return self.inner.state_dict() if self.inner is self.users else self.users.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.users.load_state_dict(state_dict)
        self.param_groups, self.state = self.users.param_groups, self.users.state

    def share_state(self, source: int) -> None:
        """Give every worker the state that worker `source` has, among workers that hold the same parameters."""
        own: list[Any] = []
        tensors: list[torch.Tensor] = []
        everywhere = self.parameters
        for place, parameter in enumerate(everywhere):
            for name, value in self.inner.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    own.append([place, name, list(value.shape), dtype_name(value.dtype), value.device.type])
                else:
                    own.append([place, name, value])
        group = world()
        is_source = group.rank == source
        described = json.loads(group.gather_bytes(json.dumps(own).encode() if is_source else b"")[source])
        for entry in described:
            place, name = entry[:2]
            state = self.inner.state[everywhere[place]]
            if len(entry) == 3:
                state[name] = entry[2]
                continue
            shape, dtype, kind = entry[2:]
            if name not in state:
                device = everywhere[place].device if kind == everywhere[place].device.type else torch.device(kind)
                state[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
            tensors.append(state[name])
        broadcast_(tensors, source)
