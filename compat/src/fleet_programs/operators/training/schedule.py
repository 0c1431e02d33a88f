"""Learning-rate schedules: one operator each, from the count of steps to a rate.

They compute in double, on the device of the count, so that nobody waits for them; the rate is float32, [1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

Formula = Callable[..., torch.Tensor]


def _infer(infer: Infer) -> None:
    if infer.shape("Step") != (1,):
        raise infer.fail(f"Step must have shape [1], got {list(infer.shape('Step'))}")
    infer.set("Out", (1,), "float32")


def _schedule(type: str, attrs: Mapping[str, Any]) -> Callable[[Formula], Formula]:
    """Define a schedule by its formula: `formula(step, **attrs)`."""

    def add(formula: Formula) -> Formula:
        @register(type, inputs=("Step",), attrs=attrs, infer=_infer)
        def _(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
            given = {name: op.attr(name) for name in attrs}
            return lambda step: formula(step.double(), **given).float()

        return formula

    return add


_DECAY = {"learning_rate": 1.0, "decay_steps": 1, "decay_rate": 1.0, "staircase": False}


def _part(step: torch.Tensor, decay_steps: int, staircase: bool) -> torch.Tensor:
    part = step / decay_steps
    return part.floor_() if staircase else part


@_schedule("lr_exponential_decay", _DECAY)
def _exponential(
    step: torch.Tensor, learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool
) -> torch.Tensor:
    return decay_rate ** _part(step, decay_steps, staircase) * learning_rate


@_schedule("lr_natural_exp_decay", _DECAY)
def _natural_exp(
    step: torch.Tensor, learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool
) -> torch.Tensor:
    return _part(step, decay_steps, staircase).mul_(-decay_rate).exp_().mul_(learning_rate)


@_schedule("lr_inverse_time_decay", _DECAY)
def _inverse_time(
    step: torch.Tensor, learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool
) -> torch.Tensor:
    return learning_rate / _part(step, decay_steps, staircase).mul_(decay_rate).add_(1)


@_schedule(
    "lr_polynomial_decay",
    {"learning_rate": 1.0, "decay_steps": 1, "end_learning_rate": 0.0001, "power": 1.0, "cycle": False},
)
def _polynomial(
    step: torch.Tensor, learning_rate: float, decay_steps: int, end_learning_rate: float, power: float, cycle: bool
) -> torch.Tensor:
    part = step / decay_steps
    part = part / part.ceil().clamp_(min=1) if cycle else part.clamp_(max=1)
    return (1 - part).pow_(power).mul_(learning_rate - end_learning_rate).add_(end_learning_rate)


@_schedule("lr_noam_decay", {"learning_rate": 1.0, "d_model": 1.0, "warmup_steps": 1.0})
def _noam(step: torch.Tensor, learning_rate: float, d_model: float, warmup_steps: float) -> torch.Tensor:
    count = step + 1  # its first step is 1
    return torch.minimum(count.rsqrt(), count * warmup_steps**-1.5).mul_(learning_rate * d_model**-0.5)


@_schedule("lr_cosine_decay", {"learning_rate": 1.0, "step_each_epoch": 1, "epochs": 1})
def _cosine(step: torch.Tensor, learning_rate: float, step_each_epoch: int, epochs: int) -> torch.Tensor:
    epoch = (step / step_each_epoch).floor_()
    return epoch.mul_(math.pi / epochs).cos_().add_(1).mul_(0.5 * learning_rate)


@register("lr_piecewise_decay", inputs=("Step",), attrs={"boundaries": [], "values": [1.0]}, infer=_infer)
def _piecewise(op: Operator, lowering: Lowering) -> Kernel:
    boundaries = torch.tensor(op.attr("boundaries"), dtype=torch.float64, device=lowering.device)
    values = torch.tensor(op.attr("values"), dtype=torch.float32, device=lowering.device)
    return lambda step: values[torch.bucketize(step.double(), boundaries, right=True)]


def _infer_warmup(infer: Infer) -> None:
    _infer(infer)
    if infer.has("LearningRate") and infer.shape("LearningRate") not in ((1,), ()):
        raise infer.fail(f"LearningRate must have one element, got shape {list(infer.shape('LearningRate'))}")


@register(
    "lr_linear_warmup",
    inputs=("Step", "LearningRate?"),
    attrs={"warmup_steps": 1, "start_lr": 0.0, "end_lr": 1.0, "learning_rate": 1.0},
    infer=_infer_warmup,
)
def _linear_warmup(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Afterwards `LearningRate`, or without one the attribute `learning_rate`."""
    steps, start, end, after = (op.attr(name) for name in ("warmup_steps", "start_lr", "end_lr", "learning_rate"))

    def warm(step: torch.Tensor, rate: torch.Tensor | None = None) -> torch.Tensor:
        slope = (step.double() * ((end - start) / steps)).add_(start).float()
        return torch.where(step < steps, slope, after if rate is None else rate)

    return warm
