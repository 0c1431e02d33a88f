"""`paddle.tensor.create_array`: a list of tensors, or after `enable_static()` an array of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle import mode
from fleet_paddle.fluid import layers


def create_array(dtype: Any = "float32", initialized_list: Sequence[Any] | None = None) -> Any:
    """An empty one, or with those that are given."""
    made: Any = layers.create_array(dtype) if mode.is_static() else []
    for place, one in enumerate(initialized_list or ()):
        index = layers.fill_constant([1], "int64", place) if mode.is_static() else place
        layers.array_write(one, index, made)
    return made
