"""Tensors or programs, training or evaluation: what a script said last, for calls whose arguments do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fleet_paddle.imperative import state
from fleet_paddle.imperative.place import set_device
from fleet_programs.executor.place import device_of
from fleet_programs.expressions import names
from fleet_programs.program.program import Program, default_main_program, default_startup_program, program_guard


def enable_static() -> None:
    """From now on calls that could mean both mean programs."""
    state.chosen.programs = True


def disable_static(place: object = None) -> None:
    """From now on calls that could mean both mean tensors, on `place` if one is given."""
    state.chosen.programs = False
    if place is not None:
        device = device_of(place)
        set_device("cpu" if device.type == "cpu" else f"gpu:{device.index or 0}")


@contextmanager
def guard(place: object = None) -> Iterator[None]:
    """Inside, calls that could mean both mean tensors, on `place` if one is given.

    Names are counted from 0 again, so that what another block has saved finds its parameters by name.
    """
    with kept(), program_guard(Program(), Program()), names.guard():
        disable_static(place)
        set_training(True)
        yield


@contextmanager
def kept() -> Iterator[None]:
    """What is said inside, and what is chosen there for new tensors, ends with the block."""
    with state.guard():
        yield


@contextmanager
def on_tensors() -> Iterator[None]:
    """Inside, calls that could mean both mean tensors, whatever was said before."""
    with kept():
        disable_static()
        yield


@contextmanager
def in_programs() -> Iterator[None]:
    """Inside, calls that could mean both mean programs, whatever was said before."""
    with kept():
        enable_static()
        yield


def in_dynamic_mode() -> bool:
    """Whether calls that could mean both mean tensors; they do until `enable_static()`."""
    return not is_static()


def is_static() -> bool:
    """Whether `enable_static()` was the last word."""
    return state.chosen.programs is True


def is_dynamic() -> bool:
    """Whether `disable_static()` was the last word: other than `in_dynamic_mode` it is False until somebody spoke."""
    return state.chosen.programs is False


def in_dygraph_mode() -> bool:
    """For libraries' own layers, which any script may call: until somebody spoke, whether no program was begun."""
    spoken = state.chosen.programs
    return not default_main_program().global_block().vars if spoken is None else not spoken


def set_training(value: bool) -> None:
    """What the functions of version 1.8 go by: whether the last layer told so is to be trained or evaluated."""
    state.chosen.training = value


def is_training() -> bool:
    """Whether the last word was `train()`, not `eval()`."""
    return state.chosen.training


def seed(value: int) -> torch.Generator:
    """Seed random numbers of tensors, and those of the default programs."""
    for program in (default_main_program(), default_startup_program()):
        program.random_seed = value
    return torch.manual_seed(value)
