"""What has no parameters: `to_variable`, `prepare_context`, and layers that pool, drop and flatten."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.dygraph.layer import Layer
from fleet_paddle.fluid.layers import computed
from fleet_paddle.imperative import ParallelEnv, init_parallel_env
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_programs import layers

_dropout = computed("dropout", layers.dropout)
_pool2d = computed("pool2d", layers.pool2d)


def to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None, dtype: Any = None) -> Tensor:
    """A tensor of an array; a tensor stays as it is."""
    if zero_copy:
        raise NotSupportedError("to_variable: zero_copy is not built; leave it out")
    if isinstance(value, Tensor):
        return value
    made = to_tensor(value, dtype)
    if name is not None:
        made.name = name
    return made


def prepare_context(strategy: Any = None) -> ParallelEnv:
    """Join the other workers; gives back who this one is, which `DataParallel` takes for a strategy."""
    if strategy is not None and not isinstance(strategy, ParallelEnv):
        raise NotSupportedError("prepare_context: strategy must be left out; the launcher says who is who")
    return init_parallel_env()


class Pool2D(TakingLayer, Layer):
    """The greatest ("max") or the mean ("avg") of each window; with `global_pooling` of the whole image."""

    takes = (
        "pool_size=-1, pool_type='max', pool_stride=1, pool_padding=0, global_pooling=False, use_cudnn=True, "
        "ceil_mode=False, exclusive=True, data_format='NCHW'"
    )

    def make_of(self, given: Any) -> None:
        if given.pool_type not in ("max", "avg"):
            raise UsageError(f"Pool2D: pool_type must be 'max' or 'avg', got {given.pool_type!r}")
        if given.pool_size == -1 and not given.global_pooling:
            raise UsageError("Pool2D: pool_size must be given unless global_pooling is True")
        whether = {name: bool(getattr(given, name)) for name in ("global_pooling", "ceil_mode", "exclusive")}
        self._settings = {**vars(given), **whether}

    def forward(self, input: torch.Tensor) -> Any:
        return _pool2d(input, **self._settings)


class Dropout(Layer):
    """While training, each value is zero with probability `p`; values are smaller in evaluation
    ("downgrade_in_infer"), or those that stay are larger while training ("upscale_in_train")."""

    def __init__(
        self,
        p: float = 0.5,
        seed: int | None = None,
        dropout_implementation: str = "downgrade_in_infer",
        is_test: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise UsageError(f"Dropout: p must be from 0 to 1, got {p}")
        if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
            raise UsageError(
                "Dropout: dropout_implementation must be downgrade_in_infer or upscale_in_train, got "
                f"{dropout_implementation!r}"
            )
        self._p, self._is_test = p, bool(is_test)
        self._settings = {"seed": seed or None, "dropout_implementation": dropout_implementation}

    def forward(self, input: torch.Tensor) -> Any:
        return _dropout(input, self._p, is_test=self._is_test or not self.training, **self._settings)


class Flatten(Layer):
    """The dimensions from one to another as one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self._axes = start_axis, stop_axis

    def forward(self, input: torch.Tensor) -> Tensor:
        return as_paddle(torch.flatten(input, *self._axes))
