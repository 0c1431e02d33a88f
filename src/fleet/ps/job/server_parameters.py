"""Which parameters of a model live on servers, and whether they can."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn.parameter import is_lazy

from fleet.errors import UsageError

Named = tuple[str, torch.Tensor, int]  # name, parameter, group


def distinct_parameters(parameters: Iterable[Named]) -> list[Named]:
    """The parameters that need a place on servers, in order; each is (name, parameter, group).

    A parameter that comes twice, as tied weights do, counts under its first name; one without elements is left out.
    UsageError unless they are float32 and lie on one device.
    """
    owners: dict[int, Named] = {}
    for name, parameter, group in parameters:
        _check(name, parameter)
        if parameter.numel() == 0:
            continue
        owner = owners.setdefault(parameter.data_ptr(), (name, parameter, group))
        if owner[1] is not parameter:
            raise UsageError(
                f"parameters {owner[0]!r} and {name!r} are two objects over the same memory; make them one object"
            )
    kept = list(owners.values())
    for name, parameter, _ in kept:
        if parameter.device != kept[0][1].device:
            raise UsageError(
                f"parameter {name!r} lies on {parameter.device}, but {kept[0][0]!r} on {kept[0][1].device}; "
                "move the model to one device"
            )
    return kept


def _check(name: str, parameter: torch.Tensor) -> None:
    if is_lazy(parameter):
        raise UsageError(f"parameter {name!r} has no shape yet; run the model once on a batch first")
    if parameter.dtype != torch.float32 or parameter.layout != torch.strided:
        kind = parameter.dtype if parameter.layout == torch.strided else parameter.layout
        raise UsageError(
            f"parameter {name!r} must be float32 to live on servers, got {kind}; call .float() on the model"
        )
    if parameter.device.type == "meta":
        raise UsageError(f"parameter {name!r} lies on the meta device and has no values; call model.to_empty() first")
