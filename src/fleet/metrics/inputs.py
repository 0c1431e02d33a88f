"""What metrics are given, checked. Of a GPU bad values are noticed when the metric is read: no batch waits."""

from __future__ import annotations

import torch

from fleet.errors import UsageError, UsageTypeError


class Doubts:
    """Conditions on values: those in host memory are checked at once, those on a device when `settle` is called."""

    def __init__(self) -> None:
        self._flags: dict[str, torch.Tensor] = {}

    def require(self, is_right: torch.Tensor, says: str, got: torch.Tensor | None = None) -> None:
        """All of `is_right`, or UsageError: "`says`, got x" with the first of `got` where it is not."""
        if is_right.device.type != "cpu":
            is_wrong = ~is_right.all()
            before = self._flags.get(says)
            self._flags[says] = is_wrong if before is None else before.to(is_wrong.device) | is_wrong
        elif not bool(is_right.all()):
            name, _, remedy = says.partition(";")
            found = "" if got is None else f", got {got[~is_right].reshape(-1)[0].item():g}"
            raise UsageError(name + found + (f";{remedy}" if remedy else ""))

    def settle(self) -> None:
        """Raise what was found on a device."""
        flags, self._flags = self._flags, {}
        for says, is_wrong in flags.items():
            if bool(is_wrong):
                raise UsageError(f"{says} (noticed on the GPU, in one of the batches since the last reading)")


def tensors(**values: object) -> None:
    """UsageTypeError if one of them is no tensor."""
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            raise UsageTypeError(f"{name} must be a tensor, got {type(value).__name__}")


def pair(
    outputs: torch.Tensor, targets: torch.Tensor, names: tuple[str, str], remedy: str = ""
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of one shape, the first of floating point numbers, without gradients and of one dimension."""
    first, second = names
    tensors(**{first: outputs, second: targets})
    if outputs.shape != targets.shape:
        raise UsageError(
            f"{first} and {second} must have the same shape, got {list(outputs.shape)} and {list(targets.shape)}"
            f"{remedy}"
        )
    if not outputs.is_floating_point():
        raise UsageTypeError(f"{first} must be floating point numbers, got {outputs.dtype}")
    return outputs.detach().flatten(), targets.detach().flatten().to(outputs.device)


def weights(doubts: Doubts, weight: torch.Tensor | None, wanted: torch.Tensor, each: str) -> torch.Tensor:
    """The weight of each of `wanted`, float64 and of one dimension: 1 where none is given."""
    if weight is None:
        return torch.ones_like(wanted, dtype=torch.float64).flatten()
    tensors(weight=weight)
    if weight.shape != wanted.shape or weight.is_complex():
        raise UsageError(
            f"weight must be a number for each {each}, of shape {list(wanted.shape)}, got {weight.dtype} "
            f"{list(weight.shape)}"
        )
    found = weight.detach().flatten().to(wanted.device).double()
    doubts.require((found >= 0) & found.isfinite(), "weight must be finite and at least 0", found)
    return found


def probabilities(doubts: Doubts, outputs: torch.Tensor, who: str) -> None:
    """Numbers from 0 to 1; NaN is none."""
    is_right = (outputs >= 0) & (outputs <= 1)
    doubts.require(is_right, f"scores must lie in [0, 1]; for logits make it {who}(from_logits=True)", outputs)


def numbers(doubts: Doubts, values: torch.Tensor, name: str) -> None:
    """Anything but NaN."""
    doubts.require(~values.isnan(), f"{name} must be numbers", values)


def labels(doubts: Doubts, targets: torch.Tensor) -> None:
    """0 or 1, of any type."""
    doubts.require((targets == 0) | (targets == 1), "labels must be 0 or 1", targets)
