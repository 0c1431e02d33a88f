"""How many bytes the optimizers of torch keep beside the parameters, by formula.

Each keeps a number of tensors of a parameter's own size and type, and most of them a counter of steps, a float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Options = Mapping[str, Any]

COUNTER_BYTES = 4

_FORMULAS: dict[str, Callable[[Options], tuple[int, int]]] = {
    "SGD": lambda options: (int(bool(options.get("momentum"))), 0),
    "Adam": lambda options: (2 + bool(options.get("amsgrad")), 1),
    "AdamW": lambda options: (2 + bool(options.get("amsgrad")), 1),
    "NAdam": lambda _: (2, 2),
    "RAdam": lambda _: (2, 1),
    "Adamax": lambda _: (2, 1),
    "Adagrad": lambda _: (1, 1),
    "Adadelta": lambda _: (2, 1),
    "RMSprop": lambda options: (1 + bool(options.get("centered")) + bool(options.get("momentum")), 1),
}
"""Optimizer -> (tensors like the parameter, counters) of each parameter, from the options of its group."""


def is_known(optimizer: str) -> bool:
    """Whether there is a formula for an optimizer."""
    return optimizer in _FORMULAS


def state_bytes(optimizer: str, options: Options, num_tensors: int, parameter_bytes: int) -> int:
    """What an optimizer of torch keeps for a group of so many tensors that take so many bytes."""
    copies, counters = _FORMULAS[optimizer](options)
    return copies * parameter_bytes + counters * COUNTER_BYTES * num_tensors
