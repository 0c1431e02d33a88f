"""What the optimizers of the imperative mode share: schedules, gradient clip, what happens before a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from fleet.errors import UsageTypeError
from fleet.optim.closure import loss_of
from fleet.optim.paddle_methods import PaddleMethods, apply_rate
from fleet.static.clip import GradientClip
from fleet_paddle.imperative.optimizer import gradients
from fleet_paddle.imperative.optimizer.gradients import adam_rows
from fleet_paddle.imperative.optimizer.groups import Clip, Groups, Rate, groups_of, rate_of
from fleet_paddle.imperative.optimizer.lr import LRScheduler
from fleet_paddle.taking import Taking

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
    """Whether torch's class updates parameters together; torch chooses that by itself only for those of its class."""
    grad_clip: GradientClip | None = None
    scheduler: LRScheduler | None = None
    keeps_sparse: ClassVar[bool] = False
    """Whether torch's own step takes sparse gradients where there is no decay."""
    by_rows: ByRows | None = None
    """How rows of a sparse gradient are updated, where that is ours to do."""
    is_lazy = False
    """Whether that is done in spite of a decay."""

    def groups(self, given: dict[str, Any]) -> Groups:
        """torch's groups by those of the arguments that concern them, which are taken out."""
        return groups_of(given.pop("parameters"), given.pop("weight_decay"))

    def take(self, given: dict[str, Any]) -> None:
        learning_rate, grad_clip = given.pop("learning_rate"), given.pop("grad_clip")
        del given["name"]  # names nothing here
        if given.pop("lazy_mode", False):
            self.by_rows, self.is_lazy = adam_rows, True
        if "beta1" in given:
            given["betas"] = given.pop("beta1"), given.pop("beta2")
        if self.is_foreach:
            given["foreach"] = True
        rate, groups = rate_of(learning_rate), self.groups(given)
        begin: Any = self.stands_for.__init__
        begin(self, groups, rate, **given)
        self._follow(learning_rate, grad_clip)

    def _follow(self, learning_rate: Rate, grad_clip: Clip) -> None:
        """What follows torch's `__init__`: rates of groups, the schedule, the clip."""
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
        self._hook()

    def _hook(self) -> None:
        self._done: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.register_step_pre_hook(lambda _, args, kwargs: self._before(*args[1:], **kwargs))
        self.register_step_post_hook(lambda *_: self._after())

    @torch.no_grad()
    def clip_gradients(self, parameters: Sequence[torch.Tensor] | None = None) -> None:
        """Make the gradients of these parameters, or of all that it trains, those that an update reads: done by `step`.

        That is `grad_clip`, then what L1Decay adds.
        """
        if parameters is None:
            groups = [(group, group["params"]) for group in self.param_groups]
        else:
            owners = {id(one): group for group in self.param_groups for one in group["params"]}
            groups = [(owners.get(id(one), self.param_groups[0]), [one]) for one in parameters]
        for group, members in groups:
            gradients.settle(members, self._stays_sparse(group))
        if self.grad_clip is not None:
            gradients.clip([one for _, members in groups for one in members], self.grad_clip)
        for group, members in groups:
            if group["penalty"] is not None:
                gradients.penalize(members, group["penalty"])

    def _stays_sparse(self, group: dict[str, Any]) -> bool:
        if group["penalty"] is not None:
            return False
        return self.is_lazy or (not group["weight_decay"] and (self.keeps_sparse or self.by_rows is not None))

    def _before(self, closure: Callable[[], Any] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What precedes torch's step; a closure is called here, since it makes the gradients that are to be clipped."""
        loss = loss_of(closure)
        self.clip_gradients()
        if self.by_rows is not None:
            self._update_rows()
        return None if closure is None else ((self, lambda: loss), {})

    @torch.no_grad()
    def _update_rows(self) -> None:
        assert self.by_rows is not None
        for group in self.param_groups:
            for one in group["params"]:
                gradient = gradients.gradient_of(one)
                if gradient is None or not gradient.is_sparse:
                    continue
                if self.by_rows(one, gradient, group, self.state[one]):
                    self._done.append((one, gradient))
                    one.grad = None  # so that torch's step passes it by
                else:
                    one.grad = gradient.to_dense()

    def _after(self) -> None:
        for one, gradient in self._done:
            one.grad = gradient
        self._done.clear()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("grad_clip", "scheduler", "by_rows", "is_lazy", "_no_decay")
        return {**super().__getstate__(), **{name: one for name, one in vars(self).items() if name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_done" not in vars(self):  # a copy; torch comes here when a state is loaded too
            self._hook()
            if self.scheduler is not None:
                self.scheduler.attach(self)

    def state_dict(self) -> dict[str, Any]:
        """What training goes on from: torch's, and where the schedule is."""
        made: dict[str, Any] = super().state_dict()
        return made if self.scheduler is None else {**made, SCHEDULE: self.scheduler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there; a schedule, if there is one, does so too."""
        super().load_state_dict(state_dict)
        if self.scheduler is not None and SCHEDULE in state_dict:
            self.scheduler.set_state_dict(state_dict[SCHEDULE])
