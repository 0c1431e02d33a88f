"""Optimizers and learning rates of the examples."""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


def optimizer_of(args: argparse.Namespace, net: nn.Module, betas: tuple[float, float]) -> torch.optim.Optimizer:
    """What --optimizer names. Matrices decay, biases and norms do not; lars and lamb see to it themselves."""
    decay = 0.0 if args.lars or args.lamb else args.weight_decay
    parameters = list(net.parameters())
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": decay},
        {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
    ]
    if args.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=args.lr, momentum=0.9)
    made: Any = torch.optim.AdamW if args.optimizer == "adamw" else torch.optim.Adam
    return made(groups, lr=args.lr, betas=betas)  # type: ignore[no-any-return]


def warm_cosine(optimizer: torch.optim.Optimizer, warmup: int, steps: int) -> LambdaLR:
    """Rises in a straight line, falls to zero along a cosine."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 + 0.5 * math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup)))

    return LambdaLR(optimizer, factor)


def warm_line(optimizer: torch.optim.Optimizer, warmup: int, steps: int) -> LambdaLR:
    """Rises in a straight line, falls to zero in another."""
    return LambdaLR(optimizer, lambda step: min((step + 1) / warmup, max(0.0, (steps - step) / max(1, steps - warmup))))


def noam(optimizer: torch.optim.Optimizer, warmup: int) -> LambdaLR:
    """Rises in a straight line, falls with the square root of the step."""
    return LambdaLR(optimizer, lambda step: min((step + 1) / warmup, (warmup / (step + 1)) ** 0.5))
