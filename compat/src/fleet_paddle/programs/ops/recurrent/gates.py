"""Activations of gates in recurrent operators: what they compute, and their slopes of what they gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fleet_programs.definition.registry import Infer

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Activation:
    """One function of a gate."""

    apply: Function
    slope: Function
    """Its slope, of its result."""


ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": Activation(torch.sigmoid, lambda out: out * (1 - out)),
    "tanh": Activation(torch.tanh, lambda out: 1 - out * out),
    "relu": Activation(torch.relu, lambda out: (out > 0).to(out.dtype)),
    "identity": Activation(torch.clone, torch.ones_like),
}


def require_activations(infer: Infer, *attrs: str) -> None:
    """Fail unless these attributes name activations of gates."""
    for name in attrs:
        if infer.attr(name) not in ACTIVATIONS:
            raise infer.fail(f"{name} must be one of {', '.join(ACTIVATIONS)}, got {infer.attr(name)!r}")
