"""What is inside a layer, listed and moved with the arguments of imperative Paddle, or with torch's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.place import device_named
from fleet_programs.executor.place import CPUPlace, CUDAPlace


class Listing(nn.Module):
    """A torch module whose methods that list or move what it holds know `include_sublayers` and names of types."""

    def parameters(self, include_sublayers: bool = True, *, recurse: bool = True) -> list[nn.Parameter]:  # type: ignore[override]
        """Its parameters, with those of the layers inside it or without."""
        return list(super().parameters(include_sublayers and recurse))

    def named_parameters(  # type: ignore[override]
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True, *, recurse: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Its parameters with their names."""
        return super().named_parameters(prefix, include_sublayers and recurse, remove_duplicate)

    def buffers(self, include_sublayers: bool = True, *, recurse: bool = True) -> list[torch.Tensor]:  # type: ignore[override]
        """Its tensors that are not trained."""
        return list(super().buffers(include_sublayers and recurse))

    def named_buffers(  # type: ignore[override]
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True, *, recurse: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Its tensors that are not trained, with their names."""
        return super().named_buffers(prefix, include_sublayers and recurse, remove_duplicate)

    def sublayers(self, include_self: bool = False) -> list[nn.Module]:
        """The layers inside it, at any depth."""
        return [one for one in self.modules() if include_self or one is not self]

    def named_sublayers(self, prefix: str = "", include_self: bool = False) -> Iterator[tuple[str, nn.Module]]:
        """The layers inside it, at any depth, with their names."""
        return ((name, one) for name, one in self.named_modules(prefix=prefix) if include_self or one is not self)

    def state_dict(
        self,
        destination: Any = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        *,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Its parameters and buffers by name, put into `destination`, if there is one."""
        start = structured_name_prefix + prefix
        if include_sublayers:
            return super().state_dict(destination=destination, prefix=start, keep_vars=keep_vars)
        made: Any = OrderedDict() if destination is None else destination
        self._save_to_state_dict(made, start, keep_vars)
        return made

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move it to a device, a type or both: `to(device, dtype, blocking)` as in Paddle, or as in torch."""
        given = [_device(one) if place == 0 else one for place, one in enumerate(args)]
        if len(given) > 1 and isinstance(given[1], str):
            given[1] = dtype_of(given[1])
        if "device" in kwargs:
            kwargs["device"] = _device(kwargs["device"])
        if kwargs.get("dtype") is not None:
            kwargs["dtype"] = dtype_of(kwargs["dtype"])
        if "blocking" in kwargs:
            blocking = kwargs.pop("blocking")
            kwargs["non_blocking"] = blocking is not None and not blocking
        return super().to(*given, **kwargs)


def _device(given: Any) -> Any:
    """What torch knows it by: a place, or a name that only Paddle has."""
    if isinstance(given, CPUPlace | CUDAPlace):
        return given.device
    return device_named(given) if isinstance(given, str) and given.startswith("gpu") else given
