"""Tensors or programs: what a script said last, for calls whose arguments do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fleet.imperative.place import set_device
from fleet.static.executor.place import device_of
from fleet.static.program import default_main_program, default_startup_program

_said: list[bool] = []
"""The last word: True for programs. Empty until there was one."""


def enable_static() -> None:
    """From now on calls that could mean both mean programs."""
    _said[:] = [True]


def disable_static(place: object = None) -> None:
    """From now on calls that could mean both mean tensors, on `place` if one is given."""
    _said[:] = [False]
    if place is not None:
        device = device_of(place)
        set_device("cpu" if device.type == "cpu" else f"gpu:{device.index or 0}")


@contextmanager
def guard(place: object = None) -> Iterator[None]:
    """Inside, calls that could mean both mean tensors, on `place` if one is given."""
    before = list(_said)
    disable_static(place)
    try:
        yield
    finally:
        _said[:] = before


def in_dynamic_mode() -> bool:
    """Whether calls that could mean both mean tensors; they do until `enable_static()`."""
    return not is_static()


def is_static() -> bool:
    """Whether `enable_static()` was the last word."""
    return _said == [True]


def is_dynamic() -> bool:
    """Whether `disable_static()` was the last word: other than `in_dynamic_mode` it is False until somebody spoke."""
    return _said == [False]


def seed(value: int) -> torch.Generator:
    """Seed random numbers of tensors, and those of the default programs."""
    for program in (default_main_program(), default_startup_program()):
        program.random_seed = value
    return torch.manual_seed(value)
