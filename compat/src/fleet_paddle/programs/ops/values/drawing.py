"""Random values that variables decide: coins, places by probability, and `alpha_dropout`."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad, same_as
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor

_LOWEST = -1.7580993408473766
"""What selu tends to below."""


@register(
    "bernoulli",
    inputs=("X",),
    infer=same_as("X"),
    is_random=True,
    calls=Calls(v2="bernoulli(x, name)", torch=torch.bernoulli),
)
def _bernoulli(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """1 with the probability that `x` gives, else 0."""
    generator = lowering.generator
    return lambda x: torch.bernoulli(x, generator=generator)


def _infer_multinomial(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    shape, number = infer.shape("X"), infer.attr("num_samples")
    if len(shape) not in (1, 2) or number < 1:
        raise infer.fail(f"X must be [classes] or [rows, classes] and num_samples >= 1, got {list(shape)} and {number}")
    infer.set("Out", (*shape[:-1], number), "int64")


@register(
    "multinomial",
    inputs=("X",),
    attrs={"num_samples": 1, "replacement": False},
    infer=_infer_multinomial,
    is_random=True,
    calls=Calls(v2="multinomial(x, num_samples=1, replacement=False, name)", torch=torch.multinomial),
)
def _multinomial(op: Operator, lowering: Lowering) -> Kernel:
    """Places drawn by the probabilities in each row; the same one comes twice only with `replacement`."""
    number, replacement, generator = op.attr("num_samples"), op.attr("replacement"), lowering.generator
    return lambda x: torch.multinomial(x, number, replacement, generator=generator)


def _infer_alpha(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    if not 0 <= infer.attr("p") <= 1:
        raise infer.fail(f"p must be from 0 to 1, got {infer.attr('p')}")
    infer.like("Out", "X")
    infer.set("Mask", infer.shape("X"), "uint8")


def _line(p: float) -> tuple[float, float]:
    """Factor and shift after which mean and variance are what they were."""
    factor = 0.0 if p == 1 else ((1 - p) * (1 + p * _LOWEST**2)) ** -0.5
    return factor, -factor * p * _LOWEST


@register(
    "alpha_dropout",
    inputs=("X",),
    outputs=("Out", "Mask"),
    attrs={"p": 0.5, "is_test": False},
    infer=_infer_alpha,
    grad=Grad(needs=("Mask",), outs=("Out",)),
    is_random=True,
)
def _alpha_dropout(op: Operator, lowering: Lowering) -> Kernel:
    if op.attr("is_test"):
        return lambda x: (x.clone(), torch.ones((), dtype=torch.uint8, device=x.device).expand_as(x))
    p, generator = op.attr("p"), lowering.generator
    factor, shift = _line(p)

    def dropped(x: T) -> Any:
        mask = torch.empty(x.shape, dtype=torch.uint8, device=x.device).bernoulli_(1 - p, generator=generator)
        return torch.where(mask > 0, x, _LOWEST) * factor + shift, mask

    return dropped


@register_grad("alpha_dropout")
def _alpha_dropout_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    if op.attr("is_test"):
        return lambda mask, grad: grad  # noqa: ARG005
    factor = _line(op.attr("p"))[0]
    return lambda mask, grad: grad * mask * factor
