"""Imperative mode in the words of version 1.8: `guard`, `to_variable`, layers with `act=`, `save_dygraph`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative import init_parallel_env, load, nn, save, to_tensor
from fleet.imperative.nn import functional
from fleet.imperative.nn.linear import Sizes
from fleet.imperative.tensor import Tensor

PARAMETERS, STATE = ".pdparams", ".pdopt"


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


def prepare_context(strategy: Any = None) -> Any:
    """Join the other workers; gives back who this one is."""
    if strategy is not None:
        raise NotSupportedError("prepare_context: strategy must be left out; the launcher says who is who")
    return init_parallel_env()


def save_dygraph(state_dict: dict[str, Any], model_path: str | os.PathLike[str]) -> None:
    """Save what `state_dict()` gives: a layer's as `model_path.pdparams`, an optimizer's as `model_path.pdopt`."""
    is_optimizer = "param_groups" in state_dict
    save(state_dict, os.fspath(model_path) + (STATE if is_optimizer else PARAMETERS))


def load_dygraph(model_path: str | os.PathLike[str]) -> tuple[dict[Any, Any] | None, dict[Any, Any] | None]:
    """What `save_dygraph` saved: the layer's and the optimizer's, None for what is not there."""
    prefix = os.fspath(model_path).removesuffix(PARAMETERS).removesuffix(STATE)
    paths = [Path(prefix + ending) for ending in (PARAMETERS, STATE)]
    if not any(path.exists() for path in paths):
        raise UsageError(f"load_dygraph: there is neither {paths[0]} nor {paths[1]}; give what save_dygraph was given")
    parameters, state = (load(path) if path.exists() else None for path in paths)
    return parameters, state


class Linear(nn.Linear):
    """`nn.Linear` with an activation after it."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: str = "float32",
    ) -> None:
        _float32("Linear", dtype)
        super().__init__(input_dim, output_dim, param_attr, bias_attr)
        self._act = _activation("Linear", act)

    def forward(self, input: torch.Tensor) -> Tensor:
        return self._act(super().forward(input))


class Embedding(nn.Embedding):
    """`nn.Embedding` whose `size` is [ids, width]."""

    def __init__(
        self,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: str = "float32",
    ) -> None:
        _float32("Embedding", dtype)
        if is_distributed:
            raise NotSupportedError("Embedding: is_distributed is for programs; use fleet.nn.Embedding beside servers")
        super().__init__(size[0], size[1], padding_idx, is_sparse, param_attr)


class Conv2D(nn.Conv2D):
    """`nn.Conv2D` with an activation after it."""

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,  # noqa: ARG002
        act: str | None = None,
        dtype: str = "float32",
    ) -> None:
        _float32("Conv2D", dtype)
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups or 1,
            weight_attr=param_attr,
            bias_attr=bias_attr,
        )
        self._act = _activation("Conv2D", act)

    def forward(self, x: torch.Tensor) -> Tensor:
        return self._act(super().forward(x))


def _activation(what: str, act: str | None) -> Callable[[Any], Tensor]:
    if act is None:
        return lambda x: x
    found = getattr(functional, act, None)
    if found is None:
        raise UsageError(f"{what}: there is no activation {act!r}; use relu, tanh, sigmoid, softmax or another")
    made: Callable[[Any], Tensor] = found
    return made


def _float32(what: str, dtype: str) -> None:
    if dtype != "float32":
        raise NotSupportedError(f"{what}: dtype must be 'float32', got {dtype!r}; convert the layer with .to()")
