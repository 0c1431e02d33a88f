"""What is fed to a program, checked and made tensors of its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.executor.lod import LoDTensor, as_numbers
from fleet_programs.executor.scope import ScopeTensor

if TYPE_CHECKING:
    from fleet_programs.program.block import Block
    from fleet_programs.program.variable import Variable


class Feeder:
    """Turns a feed into the tensors that a compiled program takes, in the order of `names`.

    Each combination of shapes is checked once.
    """

    def __init__(self, block: Block, given: Sequence[str], device: torch.device) -> None:
        self._vars = [block.var(name) for name in given]
        self._device = device
        self._is_plain = all(var.lod is None for var in self._vars) and device.type == "cpu"
        self._checked: set[tuple[Any, ...]] = set()
        self._levels = [block.levels_of(var) for var in self._vars]
        self._read = {name for one in block.program.blocks for op in one.ops for name in op.input_arg_names}
        self.names: tuple[str, ...] = tuple(
            name for var, levels in zip(self._vars, self._levels, strict=True) for name in (var.name, *levels)
        )

    def tensors(self, feed: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        """The tensors of a feed with the same names; UsageError names what does not fit."""
        if self._is_plain:
            arrays = [feed[var.name] for var in self._vars]
            seen = tuple([_look(array) for array in arrays])
            if seen in self._checked:
                return [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arrays]
            made = [self._dense(var, array) for var, array in zip(self._vars, arrays, strict=True)]
            is_direct = all(
                a.flags.carray if isinstance(a, np.ndarray) else a is t for a, t in zip(arrays, made, strict=True)
            )
            if is_direct and len(self._checked) < 1024:
                self._checked.add(seen)
            return made
        out: list[torch.Tensor] = []
        for var, levels in zip(self._vars, self._levels, strict=True):
            value = feed[var.name]
            if not levels:
                out.append(self._dense(var, value))
            else:
                if isinstance(value, np.ndarray) and value.ndim and self._read.isdisjoint(levels):
                    value = LoDTensor(
                        torch.from_numpy(value), np.arange(len(value) + 1)
                    )  # nobody asks where rows begin
                ragged = LoDTensor.of(value, var)
                out += [self._dense(var, _as_declared(var, ragged.values)), ragged.offsets.to(self._device)]
                if len(levels) == 2:
                    out.append(_groups(var, ragged).to(self._device))
        return out

    def _dense(self, var: Variable, value: Any) -> torch.Tensor:
        if isinstance(value, LoDTensor | ScopeTensor):
            value = _as_declared(var, value.values if isinstance(value, LoDTensor) else value.tensor)
        tensor = value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value
        if not isinstance(tensor, torch.Tensor):
            tensor = _tensor(var, value)
        if canonical(tensor.dtype) != var.dtype:
            raise UsageError(
                f"feed {var.name!r} must be {var.dtype}, got {canonical(tensor.dtype)}; convert it with "
                f".astype({var.dtype!r})"
            )
        if not tensor.ndim and all(size in (-1, 1) for size in var.shape):
            tensor = tensor.reshape([1] * var.ndim)  # one number for one value, whatever its shape
        if tensor.ndim == var.ndim - 1 and var.shape[-1] == 1 and var.lod is None:
            tensor = tensor.unsqueeze(-1)  # labels [batch] for [batch, 1]
        shape = tuple(tensor.shape)
        if len(shape) != len(var.shape) or any(w not in (-1, s) for w, s in zip(var.shape, shape, strict=True)):
            raise UsageError(f"feed {var.name!r} must have shape {list(var.shape)}, got {list(shape)}; reshape it")
        return tensor.to(self._device, non_blocking=True)


def _groups(var: Variable, ragged: LoDTensor) -> torch.Tensor:
    if ragged.groups is None:
        raise UsageError(
            f"feed {var.name!r} has two levels of rows: give a LoDTensor with both, such as create_lod_tensor(values, "
            "[[1, 1], [2, 3]], place)"
        )
    return ragged.groups


def _look(value: Any) -> tuple[Any, ...] | None:
    """What decides whether a value can be taken as the one before it was."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.flags.carray
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.device, value.requires_grad
    return None


def _as_declared(var: Variable, values: torch.Tensor) -> torch.Tensor:
    """The values of a LoDTensor; scripts write [n, 1] for a variable of shape [-1], and the other way round."""
    has_more = values.ndim - var.ndim
    if has_more == 1 and values.shape[-1] == 1:
        return values.squeeze(-1)
    return values.unsqueeze(-1) if has_more == -1 and var.shape[-1] == 1 else values


def _tensor(var: Variable, value: Any) -> torch.Tensor:
    """An array as a tensor over its memory, if that will do; numbers of Python as what the variable is."""
    wanted = torch_dtype(var.dtype)
    try:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value if value.flags.carray else value.copy())
        numbers = as_numbers(value, var)
    except (TypeError, ValueError) as error:
        raise UsageError(f"feed {var.name!r} must be {var.dtype} numbers of shape {list(var.shape)}: {error}") from None
    return torch.from_numpy(numbers if numbers.flags.carray else numbers.copy()).to(wanted)
