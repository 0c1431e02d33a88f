"""What the optimizers of the imperative mode share: schedules, gradient clip, what happens before a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch.optim import optimizer as _hooks

from fleet.errors import UsageTypeError
from fleet.optim.common import loss_of
from fleet_paddle.foreign.states import is_foreign, torch_state
from fleet_paddle.imperative.creation import number
from fleet_paddle.imperative.optimizer import gradients, later
from fleet_paddle.imperative.optimizer.dense_rows import DenseRows
from fleet_paddle.imperative.optimizer.gradients import adam_rows
from fleet_paddle.imperative.optimizer.groups import Clip, Groups, Rate, groups_of, rate_of
from fleet_paddle.imperative.optimizer.lr import LRScheduler
from fleet_paddle.imperative.optimizer.methods import PaddleMethods, apply_rate
from fleet_paddle.taking import Taking
from fleet_programs.backward.clip import GradientClip

SCHEDULE = "LR_Scheduler"
"""Where a state has that of the schedule, as PaddlePaddle names it."""

ByRows = Callable[[torch.Tensor, torch.Tensor, dict[str, Any], dict[str, Any]], bool]
"""Updates the rows of a sparse gradient; False where that is left to torch, with a dense one."""


class Optimizer(Taking, PaddleMethods, torch.optim.Optimizer):
    """One of torch's optimizers with Paddle's arguments and method names.

    A subclass says what it `takes`, behind arrows by torch's names: everything goes to torch's class but for what all
    share, and groups of parameters.
    """

    stands_for: ClassVar[type[torch.optim.Optimizer]]
    """torch's class."""
    is_foreach: ClassVar[bool] = True
    """Whether torch's class can update parameters together."""
    is_fused: ClassVar[bool] = False
    """Whether torch's class can update one in one pass on the CPU; such passes take no sparse gradient."""
    grad_clip: GradientClip | None = None
    scheduler: LRScheduler | None = None
    keeps_sparse: ClassVar[bool] = False
    """Whether torch's own step takes sparse gradients where there is no decay."""
    by_rows: ByRows | None = None
    """How rows of a sparse gradient are updated, where that is ours to do."""
    is_lazy = False
    """Whether that is done in spite of a decay."""
    _formula: Callable[..., Any]
    """torch's formula: its step without what watches it."""

    def groups(self, given: dict[str, Any]) -> Groups:
        """torch's groups by those of the arguments that concern them, which are taken out."""
        return groups_of(given.pop("parameters"), given.pop("weight_decay"))

    def take(self, given: dict[str, Any]) -> None:
        learning_rate, grad_clip = given.pop("learning_rate"), given.pop("grad_clip")
        given["parameters"] = None if given["parameters"] is None else list(given["parameters"])
        del given["name"]  # names nothing here
        if given.pop("lazy_mode", False):
            self.by_rows, self.is_lazy = adam_rows, True
        if "beta1" in given:
            given["betas"] = number(given.pop("beta1")), number(given.pop("beta2"))
        later.settle(type(self).__name__, given, list(given["parameters"] or ()))
        rate, groups = rate_of(learning_rate), self.groups(given)
        given |= self._together([one for group in groups for one in group["params"]])
        begin: Any = self.stands_for.__init__
        begin(self, groups, rate, **given)
        self._follow(learning_rate, grad_clip)

    def _together(self, parameters: Sequence[torch.Tensor]) -> dict[str, bool]:
        """How torch's class is to update them: it chooses by itself only for parameters of its own class.

        On a GPU all in a few kernels, on the CPU each by one pass over its values, where torch has that. A table of a
        million rows, all of which Adam moves in every step, takes a tenth of the time so.
        """
        if self.is_fused and all(one.device.type == "cpu" and one.is_floating_point() for one in parameters):
            return {"fused": True}
        return {"foreach": any(one.is_cuda for one in parameters)} if self.is_foreach else {}

    def _follow(self, learning_rate: Rate, grad_clip: Clip) -> None:
        """What follows torch's `__init__`: rates of groups, the schedule, the clip."""
        self._dense = DenseRows()
        self._step_supports_amp_scaling = False  # a GradScaler divides the gradients itself, before they are clipped
        # What servers could not do is among the defaults, since that is where they look.
        self.defaults["penalty"] = None
        for group in self.param_groups:
            group.setdefault("penalty", None)
            factor = float(group.pop("learning_rate", 1.0))
            if factor != 1.0:
                group["lr_factor"] = factor
        if isinstance(learning_rate, LRScheduler):
            for group in self.param_groups:
                group["is_scheduled"] = True
            self.scheduler = learning_rate
            learning_rate.attach(self)
        else:
            apply_rate(self, float(learning_rate))
        if grad_clip is not None and not isinstance(grad_clip, GradientClip):
            raise UsageTypeError(f"grad_clip must be one of nn.ClipGradBy..., got {type(grad_clip).__name__}")
        self.grad_clip = grad_clip

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._formula = inspect.unwrap(cls.stands_for.step)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by the gradients that backward has left; returns what the closure gives, if any."""
        return (_watched if is_watched(self) else _bare)(self, closure)

    step.hooked = True  # type: ignore[attr-defined]  # torch would wrap it in what `_watched` is

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or fill them with zeros."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for one in group["params"]:
                gradients.drop(one)

    @torch.no_grad()
    def clip_gradients(self, parameters: Sequence[torch.Tensor] | None = None) -> None:
        """Make the gradients of these parameters, or of all that it trains, those that an update reads: done by `step`.

        That is `grad_clip`, then what L1Decay adds.
        """
        if parameters is None:
            self._prepare([(group, group["params"]) for group in self.param_groups])
        else:
            owners = {id(one): group for group in self.param_groups for one in group["params"]}
            self._prepare([(owners.get(id(one), self.param_groups[0]), [one]) for one in parameters])

    def _prepare(self, groups: list[tuple[dict[str, Any], Sequence[torch.Tensor]]]) -> None:
        for group, members in groups:
            gradients.settle(members, self._stays_sparse(group), self._dense)
        if self.grad_clip is not None:
            gradients.clip([one for _, members in groups for one in members], self.grad_clip)
        for group, members in groups:
            if group["penalty"] is not None:
                gradients.penalize(members, group["penalty"])

    def _stays_sparse(self, group: dict[str, Any]) -> bool:
        if group["penalty"] is not None:
            return False
        return self.is_lazy or (not group["weight_decay"] and (self.keeps_sparse or self.by_rows is not None))

    def _apply(self) -> None:
        """The update itself, without gradients of its own: sparse rows that are ours to do, then torch's formula."""
        self._prepare([(group, group["params"]) for group in self.param_groups])
        done = [] if self.by_rows is None else self._update_rows(self.by_rows)
        self._formula()
        for one, gradient in done:
            one.grad = gradient

    def _update_rows(self, by_rows: ByRows) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Parameters with sparse gradients, which are taken away so that torch's formula passes them by."""
        done = []
        for group in self.param_groups:
            for one in group["params"]:
                gradient = gradients.gradient_of(one)
                if gradient is None or not gradient.is_sparse:
                    continue
                if by_rows(one, gradient, group, self.state[one]):
                    done.append((one, gradient))
                    gradients.drop(one)
                else:
                    one.grad = self._dense.of(one, gradient)
        return done

    def __getstate__(self) -> dict[str, Any]:
        kept = ("grad_clip", "scheduler", "by_rows", "is_lazy", "_no_decay")
        return {**super().__getstate__(), **{name: one for name, one in vars(self).items() if name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        is_copy = "param_groups" not in vars(self)  # torch comes here when a state is loaded too
        super().__setstate__(state)
        if is_copy:
            self._dense = DenseRows()
        if is_copy and self.scheduler is not None:
            self.scheduler.attach(self)

    def state_dict(self) -> dict[str, Any]:
        """What training goes on from: torch's, and where the schedule is."""
        made: dict[str, Any] = super().state_dict()
        return made if self.scheduler is None else {**made, SCHEDULE: self.scheduler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there; a schedule, if there is one, does so too. What PaddlePaddle saved is taken as well."""
        if is_foreign(state_dict):
            made = torch_state(self.stands_for.__name__, self.param_groups, state_dict)
            super().load_state_dict({"state": made, "param_groups": super().state_dict()["param_groups"]})
        else:
            super().load_state_dict(state_dict)
        if self.scheduler is not None and SCHEDULE in state_dict:
            self.scheduler.set_state_dict(state_dict[SCHEDULE])


def _bare(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
    """A step; a closure comes first, since it makes the gradients that are to be clipped."""
    loss = loss_of(closure)
    with torch.no_grad():
        self._apply()
    return loss


_watched = torch.optim.Optimizer.profile_hook_step(_bare)
"""A step with hooks, and with a name for profilers: torch wraps every step so, which costs as much as a small one."""


def is_watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether somebody wants to know of its steps: hooks of its own or of all, or a profiler."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _hooks._global_optimizer_pre_hooks
        or _hooks._global_optimizer_post_hooks
        or torch._C._autograd._profiler_enabled()
    )
