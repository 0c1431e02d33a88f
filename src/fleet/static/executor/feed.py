"""What is fed to a program, checked and made tensors of its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet.static.dtypes import canonical, torch_dtype
from fleet.static.executor.lod import LoDTensor

if TYPE_CHECKING:
    from fleet.static.block import Block
    from fleet.static.variable import Variable


class Feeder:
    """Turns a feed into the tensors that a compiled program takes, in the order of `names`.

    Each combination of shapes is checked once.
    """

    def __init__(self, block: Block, given: Sequence[str], device: torch.device) -> None:
        self._vars = [block.var(name) for name in given]
        self._device = device
        self._is_plain = all(var.lod is None for var in self._vars) and device.type == "cpu"
        self._checked: set[tuple[Any, ...]] = set()
        self.names: tuple[str, ...] = tuple(
            name for var in self._vars for name in ((var.name,) if var.lod is None else (var.name, var.lod))
        )

    def tensors(self, feed: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        """The tensors of a feed with the same names; UsageError names what does not fit."""
        if self._is_plain:
            arrays = [feed[var.name] for var in self._vars]
            seen = tuple([(type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in arrays])
            if seen in self._checked:
                return [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arrays]
            made = [self._dense(var, array) for var, array in zip(self._vars, arrays, strict=True)]
            is_direct = all(
                (isinstance(a, np.ndarray) and a.flags.writeable and a.flags.c_contiguous)
                or (isinstance(a, torch.Tensor) and a is t)
                for a, t in zip(arrays, made, strict=True)
            )
            if is_direct and len(self._checked) < 1024:
                self._checked.add(seen)
            return made
        out: list[torch.Tensor] = []
        for var in self._vars:
            value = feed[var.name]
            if var.lod is None:
                out.append(self._dense(var, value))
            else:
                ragged = LoDTensor.of(value, var)
                out += [self._dense(var, ragged.values), ragged.offsets.to(self._device)]
        return out

    def _dense(self, var: Variable, value: Any) -> torch.Tensor:
        if isinstance(value, LoDTensor):
            raise UsageError(f"feed {var.name!r} is ragged, but the variable is not; declare it with lod_level=1")
        tensor = value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value
        if not isinstance(tensor, torch.Tensor):
            given = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=_numpy(var.dtype))
            tensor = torch.from_numpy(given if given.flags.c_contiguous and given.flags.writeable else given.copy())
        if canonical(tensor.dtype) != var.dtype:
            raise UsageError(
                f"feed {var.name!r} must be {var.dtype}, got {canonical(tensor.dtype)}; convert it with "
                f".astype({var.dtype!r})"
            )
        shape = tuple(tensor.shape)
        if len(shape) != len(var.shape) or any(w not in (-1, s) for w, s in zip(var.shape, shape, strict=True)):
            raise UsageError(f"feed {var.name!r} must have shape {list(var.shape)}, got {list(shape)}; reshape it")
        return tensor.to(self._device, non_blocking=True)


def _numpy(dtype: str) -> Any:
    return np.float32 if torch_dtype(dtype) is torch.bfloat16 else np.dtype(dtype)
