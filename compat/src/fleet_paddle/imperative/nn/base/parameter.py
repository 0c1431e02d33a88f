"""How a layer's parameter is made: the user's ParamAttr, first values, the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet_paddle.attr import ParamAttr as OwnParamAttr
from fleet_paddle.imperative.nn.base.initializer import fill
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.imperative.tensor import Parameter
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Initializer, first_choice


def make(
    shape: Sequence[int], attr: Any = None, dtype: Any = None, is_bias: bool = False, default: Initializer | None = None
) -> Parameter | None:
    """A parameter as a ParamAttr, a name or an initialiser says; None for False.

    What a ParamAttr says of training (`learning_rate`, `regularizer`, `need_clip`) stays with it for the optimizer.
    """
    settings = ParamAttr.of(attr)
    if settings is None:
        return None
    if isinstance(settings, OwnParamAttr) and settings.gradient_clip is not None:
        raise NotSupportedError(
            f"ParamAttr: gradient_clip ({type(settings.gradient_clip).__name__}) is for programs; give the optimizer "
            "a grad_clip"
        )
    values = torch.empty(tuple(shape), dtype=dtype_of(dtype), device=current())
    fill(values, settings.initializer or first_choice(default, is_bias, settings.trainable))
    made = Parameter(values, settings.trainable)
    made.name = settings.name
    made.optimize_attr = {"learning_rate": settings.learning_rate}
    made.regularizer, made.need_clip = settings.regularizer, settings.need_clip
    return made
