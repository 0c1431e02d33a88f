"""What `torch.nn.utils.clip_grad_norm_(model.parameters(), ...)` finds as gradients in a job with servers.

A module's `weight` has no elements and stands for its rows. Its gradient stands for theirs: asked for its norm it has
that of the gradients of the rows, and to multiply it multiplies them. So torch's own call clips rows and layers by one
norm, where a worker's gradients are what is applied: in a job of one worker, and in every mode but sync.

In sync mode with several workers the mean is applied, which no worker has. There clipping is an error, by way of the
gradients of layers too; everything else that is done to gradients works as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import torch

from fleet.errors import UsageError
from fleet.ps.worker.sending.norms import norm_of, rows_of

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker

_TORCHS = "torch.nn.utils.clip_grad"
_DEPTH = 4
"""How many calls may lie between torch's function and here."""
_SCALES = (torch.Tensor.mul_, torch._foreach_mul_)
_CUTS = (torch.Tensor.clamp_, torch._foreach_clamp_min_, torch._foreach_clamp_max_)


class _Plain(torch.Tensor):
    """Whatever is made of it is a plain tensor."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class SharedGradient(_Plain):
    """A worker's part of a gradient whose mean over the workers is what servers apply."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if (func in _SCALES or func in _CUTS) and _is_torchs():
            _refuse(is_norm=func in _SCALES)
        return super().__torch_function__(func, types, args, kwargs)


class RowsGradient(_Plain):
    """The gradients of a module's rows, as that of its `weight`."""

    weight: ReferenceType[torch.Tensor]
    worker: ReferenceType[Worker]

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _LISTS and isinstance(args[0], list | tuple):
            found = [_LISTS[func](one, *args[1:], **kwargs) for one in args[0]]
            return found if func is torch._foreach_norm else None
        own = args[0] if args and isinstance(args[0], RowsGradient) else None
        if own is not None and func in (torch.linalg.vector_norm, torch.Tensor.norm, torch.norm):
            return own.norm_of_rows(*args[1:], **kwargs)
        if own is not None and func is torch.Tensor.mul_:
            own.scale_rows(args[1])
        elif own is not None and func is torch.Tensor.zero_:
            own.drop_rows()
        elif own is not None and func in _CUTS and _is_torchs():
            _refuse(is_norm=False)
        return super().__torch_function__(func, types, args, kwargs)

    def norm_of_rows(self, ord: float = 2.0, **_: Any) -> torch.Tensor:
        """The norm of the gradients of all rows of the module's tables; a table that modules share counts once."""
        worker, weight = self.worker(), self.weight()
        rows: list[torch.Tensor] = []
        for table in sorted({lookup.table for lookup in worker.used}) if worker is not None else ():
            lookups = [one for one in worker.used if one.table == table and one.row_gradients is not None]  # type: ignore[union-attr]
            if lookups and lookups[0].weight is weight:
                rows += rows_of(lookups)
        with torch._C.DisableTorchFunctionSubclass():
            return torch.tensor(norm_of(rows, ord), dtype=self.dtype, device=self.device)

    def drop_rows(self) -> None:
        """Drop the gradients of the rows, as `model.zero_grad(set_to_none=False)` sets those of layers to zeros."""
        worker, weight = self.worker(), self.weight()
        if worker is None:
            return
        worker.calls.rows_zeroed()
        for lookup in worker.used:
            if lookup.weight is weight and lookup.rows is not None:
                lookup.rows.grad = None

    @torch.no_grad()
    def scale_rows(self, factor: torch.Tensor | float) -> None:
        """Multiply the gradients of the rows, as a call on all gradients does."""
        worker, weight = self.worker(), self.weight()
        if worker is None:
            return
        if worker.client.job.num_workers > 1 and worker.client.job.mode == "sync" and _is_torchs():
            _refuse(is_norm=True)
        for lookup in worker.used:
            if lookup.weight is weight and lookup.rows is not None and lookup.rows.grad is not None:
                lookup.rows.grad.mul_(factor)


_LISTS: Mapping[Any, Callable[..., Any]] = {
    torch._foreach_norm: torch.linalg.vector_norm,
    torch._foreach_mul_: torch.Tensor.mul_,
    torch._foreach_clamp_min_: torch.Tensor.clamp_,
    torch._foreach_clamp_max_: torch.Tensor.clamp_,
}
"""Functions of many tensors, each with the function that it calls for one."""


def gradient_of_rows(weight: torch.Tensor, worker: Worker | None) -> torch.Tensor:
    """The gradient of a module's `weight`, which stands for those of its rows."""
    made = torch.zeros_like(weight)
    if worker is None:
        return made
    own = made.as_subclass(RowsGradient)
    own.weight, own.worker = ref(weight), ref(worker)
    return own


def mark_shared(parameter: torch.Tensor) -> None:
    """Mark a gradient that backward has left: it is this worker's part of a mean."""
    if type(parameter.grad) is torch.Tensor:
        parameter.grad = parameter.grad.as_subclass(SharedGradient)


def _is_torchs() -> bool:
    """Whether one of torch's functions for clipping is calling."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame is None or frame.f_globals.get("__name__") == _TORCHS:
            return frame is not None
        frame = frame.f_back
    return False


def _refuse(*, is_norm: bool) -> None:
    if is_norm:
        raise UsageError(
            "torch.nn.utils.clip_grad_norm_ has the gradients of this worker alone, and a synchronous step applies the "
            "mean over all workers: take the call out, and set strategy.clip_norm to its max_norm"
        )
    raise UsageError(
        "torch.nn.utils.clip_grad_value_ reaches neither the rows of tables nor the mean over workers; take the call "
        "out and limit the norm, by strategy.clip_norm"
    )
