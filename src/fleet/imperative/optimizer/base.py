"""What the optimizers of the imperative mode share: their arguments' meanings, schedules, gradient clip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.imperative.optimizer.lr import LRScheduler
from fleet.optim.spelling import Spelling, apply_rate
from fleet.static.clip import GradientClip, GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue
from fleet.static.variable import Penalty

Rate = float | LRScheduler
Groups = list[dict[str, Any]]


class Optimizer(Spelling, torch.optim.Optimizer):
    """One of torch's optimizers with Paddle's arguments and method names; `stands_for` is torch's class."""

    grad_clip: GradientClip | None = None

    def begin(self, learning_rate: Rate, grad_clip: GradientClip | None) -> None:
        """What follows torch's `__init__`: rates of groups, the schedule, the clip."""
        for group in self.param_groups:
            if "learning_rate" in group:
                group["lr_factor"] = float(group.pop("learning_rate"))
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
        if grad_clip is not None:
            self.register_step_pre_hook(lambda *_: self.clip_gradients())

    @torch.no_grad()
    def clip_gradients(self, parameters: Sequence[torch.Tensor] | None = None) -> None:
        """Apply `grad_clip` to the gradients of these parameters, or of all that it trains; done by `step`."""
        if parameters is None:
            parameters = [one for group in self.param_groups for one in group["params"]]
        with_grad = [one for one in parameters if one.grad is not None]
        clip = self.grad_clip
        if isinstance(clip, GradientClipByGlobalNorm):
            torch.nn.utils.clip_grad_norm_(with_grad, clip.clip_norm)
        elif isinstance(clip, GradientClipByNorm):
            for one in with_grad:
                torch.nn.utils.clip_grad_norm_([one], clip.clip_norm)
        elif isinstance(clip, GradientClipByValue):
            for one in with_grad:
                assert one.grad is not None
                one.grad.clamp_(clip.min, clip.max)


def rate_of(learning_rate: Rate) -> float:
    """The learning rate to begin with."""
    if isinstance(learning_rate, LRScheduler):
        return learning_rate()
    if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float):
        raise UsageTypeError(
            f"learning_rate must be a number or one of optimizer.lr, got {type(learning_rate).__name__}"
        )
    if not learning_rate >= 0:
        raise UsageError(f"learning_rate must be >= 0, got {learning_rate}")
    return float(learning_rate)


def groups_of(parameters: Iterable[Any] | None) -> list[Any]:
    """What to train; dicts are groups with settings of their own, `learning_rate` being a factor."""
    found = [] if parameters is None else list(parameters)
    if not found:
        raise UsageError("parameters must be what to train, for example layer.parameters(); got nothing")
    for group in found:
        if isinstance(group, dict) and "weight_decay" in group:
            group["weight_decay"] = decay_of(group["weight_decay"])
    return found


def decay_of(weight_decay: float | Penalty | None) -> float:
    """The factor on a weight that is added to its gradient."""
    if isinstance(weight_decay, Penalty):
        if weight_decay.kind != "l2":
            raise NotSupportedError("weight_decay must be a number or L2Decay here; L1Decay is for programs")
        return weight_decay.coeff
    if weight_decay is None:
        return 0.0
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, int | float):
        raise UsageTypeError(f"weight_decay must be a number or L2Decay, got {type(weight_decay).__name__}")
    return float(weight_decay)
