"""`fleet.distributed_optimizer` in a collective job: the user's optimizer, stepping together with the other workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from fleet.collective import tuning
from fleet.collective.agree import world
from fleet.collective.compose import replace_optimizer
from fleet.collective.model import DistributedModel
from fleet.collective.parts.average import broadcast_
from fleet.collective.step import StepState
from fleet.collective.world.worlds import dtype_name
from fleet.errors import NotReadyError, NotSupportedError, UsageTypeError
from fleet.observe.metrics.steps import steps
from fleet.optim.common import Uncopied, loss_of
from fleet.strategy import DistributedStrategy


class CollectiveOptimizer(Uncopied, Optimizer):
    """Stands for a torch optimizer: same param_groups, so learning-rate schedules and changes work as usual.

    `step()` merges, unscales and clips what backward left, updates the parameters and lets the workers come together
    as the strategy says. `inner` is the optimizer that updates parameters on this worker.
    """

    # A GradScaler of the user's divides the gradients itself instead of leaving that to a fused kernel.
    _step_supports_amp_scaling = False

    def __init__(self, users: Optimizer, strategy: DistributedStrategy) -> None:
        if not isinstance(users, Optimizer):
            raise UsageTypeError(f"optimizer must be a torch.optim.Optimizer, got {type(users).__name__}")
        if isinstance(users, CollectiveOptimizer):
            raise UsageTypeError("this optimizer is distributed already; call fleet.distributed_optimizer() once")
        # Not Optimizer.__init__, which would make groups of its own, and not all of the user's attributes: a schedule
        # has put a `step` among them. Hooks that are registered here run when the user's optimizer steps.
        own = {name: value for name, value in vars(users).items() if name.startswith(("_optimizer_", "_zero_grad"))}
        self.__dict__.update(own)
        self._clip = getattr(users, "clip_gradients", None)
        self._given = users
        self.users = users
        self.inner = users
        self._strategy = strategy
        self._linked: StepState | None = None

    # Always those of the user's optimizer, which loading a state replaces.

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The user's optimizer's own list: what changes there changes here."""
        return self.users.param_groups

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The user's optimizer's own."""
        return self.users.defaults

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The user's optimizer's own; with sharding the state is in `inner`."""
        return self.users.state

    def link(self, model: DistributedModel) -> None:
        """Bind to the model whose parameters this trains."""
        state = model.step_state
        names = {parameter: name for name, parameter in model.module.named_parameters()}
        self.users = replace_optimizer(self.users, self._strategy, names)
        if model.fuses:
            tuning.fuse(self.users)
        self._linked, state.optimizer = state, self
        self.inner = state.policy.take(self.users)

    @property
    def num_skipped(self) -> int:
        """How many updates `strategy.nonfinite_gradients = "skip"` has left out."""
        return 0 if self._linked is None else self._linked.check.num_skipped

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What it trains, group by group."""
        return [parameter for group in self.users.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, or wait for more batches if gradients are merged."""
        loss = loss_of(closure)
        state = self._linked
        if state is None:
            raise NotReadyError(
                "this optimizer has no model; give fleet.distributed_model() the one whose parameters it was made of"
            )
        if not state.merge.add():
            return loss
        steps.begin_step(is_new=steps.count.enter(self))
        state.bring_together(self._gradients)
        if not self._finish(state):
            state.policy.before_step()
            self.inner.step()
            state.num_updates += 1
        state.policy.stepped(state.loss)
        state.loss = None
        steps.end_step(is_whole=steps.count.is_whole)
        self.users._opt_called = True  # type: ignore[attr-defined]  # what a schedule made of it looks for
        return loss

    def _gradients(self) -> list[torch.Tensor]:
        return [one.grad for one in self.parameters if one.grad is not None]

    def _finish(self, state: StepState) -> bool:
        """Scale and clip what backward left; returns whether the update is to be left out."""
        strategy = self._strategy
        step = state.num_updates + self.num_skipped + 1
        if state.scale is None and state.check.leaves_out(self.parameters, step, state.loss):
            return True
        factor = state.merge.factor
        if strategy.gradient_scale_configs.scale_strategy != "avg":
            factor *= state.num_workers
        if state.scale is not None:
            if state.unscale_(self._gradients(), factor):
                return True
        elif factor != 1.0 and (gradients := self._gradients()):
            torch._foreach_mul_(gradients, factor)
        if strategy.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(state.policy.to_clip(self.parameters), strategy.clip_norm)
        if strategy.clip_value is not None:
            torch.nn.utils.clip_grad_value_(self.parameters, strategy.clip_value)
        if self._clip is not None and self.inner is not self._given:
            self._clip(state.policy.to_clip(self.parameters))  # the user's own would do it as it steps, but does not
        return False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, unless they are part of an update that is still being merged."""
        if self._linked is None or self._linked.merge.count == 0:
            self.users.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only before the model is distributed: later, workers have agreed on what they train."""
        if self._linked is not None:
            raise NotSupportedError(
                "add_param_group() after fleet.distributed_model(); add it before, or make both anew"
            )
        self.users.add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """This worker's: with sharding that of its share. `fleet.Checkpoint` saves the whole."""
        return self._owner().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict()` gave on a worker with the same share."""
        owner = self._owner()
        owner.load_state_dict(state_dict)
        if owner.param_groups is not self.users.param_groups:
            for own, users in zip(owner.param_groups, self.users.param_groups, strict=True):
                users.update({name: value for name, value in own.items() if name != "params"})

    def _owner(self) -> Optimizer:
        return self.inner if self._linked is None else self._linked.policy.state_owner(self.inner)

    def share_state(self, source: int) -> None:
        """Give every worker the state that worker `source` has, among workers that hold the same parameters."""
        everywhere = self.parameters
        group = world()
        own = _description(everywhere, self.inner.state) if group.rank == source else []
        tensors: list[torch.Tensor] = []
        for place, name, *rest in json.loads(group.gather_bytes(json.dumps(own).encode())[source]):
            parameter = everywhere[place]
            state = self.inner.state[parameter]
            if len(rest) == 1:
                state[name] = rest[0]
                continue
            shape, dtype, kind = rest
            if name not in state:
                device = parameter.device if kind == parameter.device.type else torch.device(kind)
                state[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
            tensors.append(state[name])
        broadcast_(tensors, source)


def _description(parameters: list[torch.Tensor], states: Any) -> list[list[Any]]:
    """Place of the parameter, name, and either the value itself or shape, type and kind of device of a tensor."""
    found = []
    for place, parameter in enumerate(parameters):
        for name, value in states.get(parameter, {}).items():
            form = [value]
            if isinstance(value, torch.Tensor):
                form = [list(value.shape), dtype_name(value.dtype), value.device.type]
            found.append([place, name, *form])
    return found
