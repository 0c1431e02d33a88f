"""Layers whose way with tensors is another than their operators': those that make tensors, and `dropout`.

Each takes what the layer of its name takes; where version 1.8 lets a size be a tensor, so it is here.
"""
# ruff: noqa: ARG001  (arguments and names are those of the layers)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
import torch

from fleet.errors import NotSupportedError
from fleet_paddle import mode
from fleet_paddle.fluid import flow, rates
from fleet_paddle.fluid.traced import Traced, write
from fleet_paddle.imperative import creation
from fleet_paddle.imperative.tensor import Parameter, Tensor, as_paddle
from fleet_programs import layers

Size = Sequence[Any] | torch.Tensor


def fill_constant(
    shape: Size, dtype: Any, value: Any, force_cpu: bool = False, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """`value` everywhere, in `out` if given."""
    made = creation.full(_sizes(shape), value.item() if isinstance(value, torch.Tensor) else value, dtype)
    return _into(out, made)


def zeros(shape: Size, dtype: Any = "float32", force_cpu: bool = False) -> Tensor:
    """0 everywhere."""
    return fill_constant(shape, dtype, 0)


def ones(shape: Size, dtype: Any = "float32", force_cpu: bool = False) -> Tensor:
    """1 everywhere."""
    return fill_constant(shape, dtype, 1)


def range(start: Any, end: Any, step: Any, dtype: Any) -> Tensor:
    """start, start + step, ... up to but without `end`."""
    return creation.arange(_number(start), _number(end), _number(step), dtype)


def linspace(start: Any, stop: Any, num: Any, dtype: Any = "float32") -> Tensor:
    """`num` values at equal distances from `start` to `stop`."""
    return creation.linspace(_number(start), _number(stop), int(num), dtype)


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = "float32") -> Tensor:
    """1 on the diagonal of a matrix, 0 elsewhere; repeated for `batch_shape`."""
    made = creation.eye(num_rows, num_columns, dtype)
    return as_paddle(made.repeat(*batch_shape, 1, 1)) if batch_shape else made


def assign(input: Any, output: Tensor | None = None) -> Tensor:
    """A copy of a tensor or of an array, in `output` if given."""
    made = as_paddle(torch.clone(input)) if isinstance(input, torch.Tensor) else creation.to_tensor(np.asarray(input))
    if not isinstance(input, torch.Tensor | np.ndarray | np.generic) and made.dtype == torch.float64:
        made = made.astype("float32")
    return _into(output, made)


def create_parameter(
    shape: Size,
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A tensor to train."""
    return creation.create_parameter(_sizes(shape), dtype, name, attr, is_bias, default_initializer)


def create_global_var(
    shape: Size, value: Any, dtype: Any, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Tensor:
    """A tensor that is not trained."""
    made = fill_constant(shape, dtype, value)
    made.name = name
    return made


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Tensor:
    """Refused: a tensor has a value from the start."""
    raise NotSupportedError("create_tensor: a tensor has a shape and values; use what the function gives back")


def uniform_random(
    shape: Size, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Tensor:
    """Numbers spread evenly over [min, max); with a `seed` the same each time."""
    return creation.uniform(_sizes(shape), dtype, min, max, seed)


def gaussian_random(
    shape: Size, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Normally distributed numbers; with a `seed` the same each time."""
    made = creation.empty(_sizes(shape), dtype)
    generator = torch.Generator(made.device).manual_seed(seed) if seed else None
    return as_paddle(made.normal_(mean, std, generator=generator))


def _like(layer: Callable[..., Any], made_by: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What the layer takes, but for tensors: that much of `made_by`, one size being that of the layer's input."""
    arguments = signature(layer)

    @wraps(layer)
    def make(*args: Any, **named: Any) -> Tensor:
        bound = arguments.bind(*args, **named)
        bound.apply_defaults()
        given = bound.arguments
        input, shape = given.pop("input"), _sizes(given.pop("shape"))
        shape[given.pop("output_dim_idx")] = input.size(given.pop("input_dim_idx"))
        return made_by(shape, **given)

    return make


uniform_random_batch_size_like = _like(layers.uniform_random_batch_size_like, uniform_random)
gaussian_random_batch_size_like = _like(layers.gaussian_random_batch_size_like, gaussian_random)


def dropout(
    x: torch.Tensor,
    dropout_prob: float,
    is_test: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Tensor:
    """Random zeros while training: until the script calls `eval()` on its model, or says `is_test`."""
    settings = {"seed": seed or None, "dropout_implementation": dropout_implementation}
    made: Tensor = _dropout((x, dropout_prob), {"is_test": bool(is_test) or not mode.is_training(), **settings})
    return made


_dropout = Traced("dropout", layers.dropout)

_OWN: tuple[Callable[..., Any], ...] = (
    *(assign, create_global_var, create_parameter, create_tensor, dropout, eye, fill_constant, gaussian_random),
    *(gaussian_random_batch_size_like, linspace, ones, range, uniform_random, uniform_random_batch_size_like, zeros),
)

FUNCTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _OWN} | {
    **flow.FUNCTIONS,
    "cosine_decay": rates.CosineDecay,
    "exponential_decay": rates.ExponentialDecay,
    "inverse_time_decay": rates.InverseTimeDecay,
    "linear_lr_warmup": rates.LinearLrWarmup,
    "natural_exp_decay": rates.NaturalExpDecay,
    "noam_decay": lambda d_model, warmup_steps, learning_rate=1.0: rates.NoamDecay(
        d_model, warmup_steps, learning_rate=learning_rate
    ),
    "piecewise_decay": lambda boundaries, values: rates.PiecewiseDecay(boundaries, values, 0),
    "polynomial_decay": rates.PolynomialDecay,
}
"""Layer -> what it is for tensors; a schedule is an object there, which an optimizer takes."""


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _sizes(shape: Size) -> list[int]:
    return [int(one) for one in shape]


def _into(target: Tensor | None, made: Tensor) -> Tensor:
    if target is None:
        return made
    write(target, made)
    return target
