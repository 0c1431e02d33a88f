"""What layers of PaddlePaddle check of their arguments, for scripts and libraries that have layers of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import wraps
from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.mode import is_dynamic
from fleet_programs.definition.dtypes import canonical
from fleet_programs.program.variable import Variable

__all__ = ["check_dtype", "check_type", "check_variable_and_dtype", "dygraph_only", "get_logger"]


def check_variable_and_dtype(
    input: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = ""
) -> None:
    """TypeError if, in a program, an argument is no variable of one of these types."""
    check_type(input, input_name, Variable, op_name, extra_message)
    if isinstance(input, Variable):
        check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def check_type(input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = "") -> None:
    """TypeError if, in a program, an argument is none of these classes."""
    if not is_dynamic() and not isinstance(input, torch.Tensor) and not isinstance(input, expected_type):
        raise UsageTypeError(
            f"{op_name}: {input_name} must be {_listed(expected_type)}, got {type(input).__name__}. {extra_message}"
        )


def check_dtype(input_dtype: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """TypeError if, in a program, a dtype is none of these."""
    expected = [expected_dtype] if isinstance(expected_dtype, str) else expected_dtype
    if not is_dynamic() and canonical(input_dtype) not in expected:
        raise UsageTypeError(
            f"{op_name}: {input_name} must be one of {', '.join(map(str, expected))}, got {canonical(input_dtype)}; "
            f"cast it. {extra_message}"
        )


def dygraph_only(func: Any) -> Any:
    """A function that is refused while programs are built."""

    @wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not is_dynamic():
            raise UsageError(f"{func.__name__} is for tensors; call paddle.disable_static() first")
        return func(*args, **kwargs)

    return checked


def get_logger(name: str, level: int | str, fmt: str | None = None) -> logging.Logger:
    """A logger of that level, which writes to the terminal; asked for again it is the same."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    if fmt:
        logger.handlers[0].setFormatter(logging.Formatter(fmt))
    return logger


def _listed(kinds: Sequence[type] | type) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple | list) else (kinds,)))
