"""Rows of a pull to the places of a batch that use them, differentiable in the rows.

Legend: U distinct rows, D their width, B samples, S slots, n ids in all.

A pull answers each distinct key once; the inverse (`fleet.ps.keys.route`) says which of these rows a place uses. The
gradient is that of the distinct rows, with the gradients of all their uses summed: what a push sends.

On the CPU, float32 rows go through the C++ core, which sums gradients in the order of the batch: always the same bits.
Other dtypes and devices go through torch's own functions.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fleet import _native
from fleet.errors import UsageError

Floats = npt.NDArray[np.float32]
Pooling = Literal["none", "sum", "mean"]

_MEMORY: Any = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What the core writes into, whatever class rows and gradients have and whatever is the default."""


def pool(
    rows: torch.Tensor,
    inverse: torch.Tensor,
    offsets: torch.Tensor | None = None,
    mode: Pooling = "none",
    include_last_offset: bool = False,
) -> torch.Tensor:
    """Look up `rows` [U, D] with the int64 `inverse`, and add up or average bags of them.

    Mode "none" gives one row per entry: shape [*inverse.shape, D]. "sum" and "mean" give one row per bag, [B, D]: the
    bags of a 1-D inverse begin at the 1-D int64 `offsets`, with the meaning of `torch.nn.EmbeddingBag`; those of a 2-D
    inverse [B, L] are its rows. An empty bag is zeros.

    >>> rows = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    >>> pool(rows, torch.tensor([1, 0, 1]))
    tensor([[ 2., 20.],
            [ 1., 10.],
            [ 2., 20.]])
    >>> pool(rows, torch.tensor([1, 0, 1]), torch.tensor([0, 2, 2]), "sum")
    tensor([[ 3., 30.],
            [ 0.,  0.],
            [ 2., 20.]])
    """
    _check_rows(rows)
    if mode not in get_args(Pooling):
        raise UsageError(f"mode must be one of {', '.join(get_args(Pooling))}, got {mode!r}")
    if mode == "none":
        if offsets is not None or include_last_offset:
            raise UsageError("offsets make bags, and mode 'none' has none; leave them out, or set mode to sum or mean")
        if not _is_ours(rows):
            return functional.embedding(inverse, rows)
        return _gather(rows, inverse.reshape(1, -1)).view(*inverse.shape, rows.shape[1])

    if offsets is None:
        if inverse.dim() != 2:
            raise UsageError(
                f"offsets are missing: mode {mode!r} needs them unless inverse is 2-D, got {inverse.dim()}-D"
            )
        num_bags, length = inverse.shape
        offsets = torch.arange(num_bags + 1, device=inverse.device) * length
        inverse, include_last_offset = inverse.reshape(-1), True
    if not _is_ours(rows):
        return functional.embedding_bag(inverse, rows, offsets, mode=mode, include_last_offset=include_last_offset)
    pooled: torch.Tensor = _Bags.apply(  # type: ignore[no-untyped-call]
        rows, inverse, offsets, mode == "mean", include_last_offset
    )
    return pooled


def pool_slots(rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
    """Look up `rows` [U, D] for all slots of one table at once: `inverse` is int64 [S, B], the result [B, S, D].

    The inverse comes slot by slot, as batches do, and the result sample by sample, as models want it: nothing is
    transposed in between, and `.flatten(1)` of the result is a view.

    >>> pool_slots(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0, 1], [2, 2]])).flatten(1)
    tensor([[1., 3.],
            [2., 3.]])
    """
    _check_rows(rows)
    if inverse.dim() != 2:
        raise UsageError(f"inverse must have shape [slots, batch], got {list(inverse.shape)}")
    if not _is_ours(rows):
        return functional.embedding(inverse.t(), rows)
    return _gather(rows, inverse)


def _check_rows(rows: torch.Tensor) -> None:
    if rows.dim() != 2:
        raise UsageError(f"rows must have shape [num_rows, width], got {list(rows.shape)}")


def _is_ours(rows: torch.Tensor) -> bool:
    """Whether the core does it: a compiler must see torch's own operators."""
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return rows.device.type == "cpu" and rows.dtype == torch.float32 and not is_traced


def _gather(rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
    places: torch.Tensor = _Gather.apply(rows, inverse)  # type: ignore[no-untyped-call]
    return places


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the core takes it: contiguous, without a gradient, nothing left for later, of torch's own class."""
    return _of_torch(tensor.detach()).resolve_neg().contiguous()


def _of_torch(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as a plain tensor, whose `numpy()` is its memory; that of a subclass may be a copy."""
    return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)


def _matrix(grad: torch.Tensor, height: int, width: int) -> Floats:
    """A gradient as a matrix with contiguous rows; columns of a wider matrix are not copied."""
    grad = _of_torch(grad.detach()).resolve_neg().reshape(height, width)
    return (grad if grad.stride(1) == 1 or width <= 1 else grad.contiguous()).numpy()


# Tensors go to the core as numpy arrays: handing over a tensor itself takes 1 to 3 microseconds more.
class _Gather(torch.autograd.Function):
    """rows [U, D], inverse [S, B] -> [B, S, D]."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
        inverse = _plain(inverse)
        num_slots, batch = inverse.shape
        width = rows.shape[1]
        out = torch.empty(batch, num_slots * width, **_MEMORY)
        _native.gather(_plain(rows).numpy(), inverse.numpy(), out.numpy())
        ctx.save_for_backward(inverse)
        ctx.rows_shape = rows.shape
        return out.view(batch, num_slots, width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor, None]:
        (inverse,) = ctx.saved_tensors
        num_slots, batch = inverse.shape
        grad_rows = torch.zeros(ctx.rows_shape, **_MEMORY)
        _native.scatter(_matrix(grad_out, batch, num_slots * ctx.rows_shape[1]), inverse.numpy(), grad_rows.numpy())
        return grad_rows, None


class _Bags(torch.autograd.Function):
    """rows [U, D], inverse [n], offsets [B] or [B + 1] -> [B, D]."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        inverse: torch.Tensor,
        offsets: torch.Tensor,
        mean: bool,
        include_last_offset: bool,
    ) -> torch.Tensor:
        inverse, offsets = _plain(inverse), _plain(offsets)
        out = torch.empty(max(offsets.numel() - include_last_offset, 0), rows.shape[1], **_MEMORY)
        _native.pool_bags(
            _plain(rows).numpy(), inverse.numpy(), offsets.numpy(), out.numpy(), mean, include_last_offset
        )
        ctx.save_for_backward(inverse, offsets)
        ctx.rows_shape, ctx.mean, ctx.include_last_offset = rows.shape, mean, include_last_offset
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inverse, offsets = ctx.saved_tensors
        grad_rows = torch.zeros(ctx.rows_shape, **_MEMORY)
        grads = _matrix(grad_out, *grad_out.shape)
        _native.unpool_bags(
            grads, inverse.numpy(), offsets.numpy(), grad_rows.numpy(), ctx.mean, ctx.include_last_offset
        )
        return grad_rows, None, None, None, None
