"""Rows of a pull to the places of a batch that use them, differentiable in the rows and in their weights.

Legend: U distinct rows, D their width, B samples, S slots, n ids in all.

A pull answers each distinct key once; the inverse (`fleet.ps.worker.asking.keys.route`) says which of these rows a
place uses. The gradient is that of the distinct rows, with the gradients of all their uses summed: what a push sends.

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

Pooling = Literal["none", "sum", "mean"]
MEMORY: Any = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What the core writes into, whatever class rows and gradients have and whatever is the default."""


def weighted_bags(
    rows: torch.Tensor,
    inverse: torch.Tensor,
    offsets: torch.Tensor,
    weights: torch.Tensor,
    include_last_offset: bool,
) -> torch.Tensor:
    """Sum the rows [U, D] that a 1-D inverse names, each times its weight, over the bags that `offsets` begin."""
    pooled: torch.Tensor = _WeightedBags.apply(  # type: ignore[no-untyped-call]
        rows, inverse, offsets, weights, include_last_offset
    )
    return pooled


class _WeightedBags(torch.autograd.Function):
    """rows [U, D], inverse [n], offsets [B] or [B + 1], weights [n] -> [B, D]."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        inverse: torch.Tensor,
        offsets: torch.Tensor,
        weights: torch.Tensor,
        include_last_offset: bool,
    ) -> torch.Tensor:
        rows, inverse, offsets, weights = plain(rows), plain(inverse), plain(offsets), plain(weights)
        out = torch.empty(max(offsets.numel() - include_last_offset, 0), rows.shape[1], **MEMORY)
        _native.pool_weighted(
            rows.numpy(), inverse.numpy(), offsets.numpy(), weights.numpy(), out.numpy(), include_last_offset
        )
        ctx.save_for_backward(rows, inverse, offsets, weights)
        ctx.include_last_offset = include_last_offset
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, inverse, offsets, weights = ctx.saved_tensors
        grads = matrix(grad_out, *grad_out.shape)
        places = inverse.numpy(), offsets.numpy()
        grad_rows = grad_weights = None
        if ctx.needs_input_grad[0]:
            grad_rows = torch.zeros(rows.shape, **MEMORY)
            _native.unpool_weighted(grads, *places, weights.numpy(), grad_rows.numpy(), ctx.include_last_offset)
        if ctx.needs_input_grad[3]:
            grad_weights = torch.zeros(weights.shape, **MEMORY)
            _native.grade_weights(grads, *places, rows.numpy(), grad_weights.numpy(), ctx.include_last_offset)
        return grad_rows, None, None, grad_weights, None


def pool(
    rows: torch.Tensor,
    inverse: torch.Tensor,
    offsets: torch.Tensor | None = None,
    mode: Pooling = "none",
    include_last_offset: bool = False,
    *,
    weights: torch.Tensor | None = None,
    padding_row: int | None = None,
) -> torch.Tensor:
    """Look up `rows` [U, D] with the int64 `inverse`, and add up or average bags of them.

    Mode "none" gives one row per entry: shape [*inverse.shape, D]. "sum" and "mean" give one row per bag, [B, D]: the
    bags of a 1-D inverse begin at the 1-D int64 `offsets`, with the meaning of `torch.nn.EmbeddingBag`; those of a 2-D
    inverse [B, L] are its rows. An empty bag is zeros. `weights`, of the shape of the inverse and for "sum" alone,
    multiply the rows, and get a gradient. Row `padding_row`, which must be zeros, does not count in a mean.

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
    _check_weights(rows, inverse, weights, mode)
    if mode not in get_args(Pooling):
        raise UsageError(f"mode must be one of {', '.join(get_args(Pooling))}, got {mode!r}")
    if mode == "none":
        if offsets is not None or include_last_offset:
            raise UsageError("offsets make bags, and pooling 'none' has none; leave them out, or pool by sum or mean")
        if not _is_ours(rows):
            return functional.embedding(inverse, rows, padding_row)
        return _gather(rows, inverse.reshape(1, -1)).view(*inverse.shape, rows.shape[1])
    if offsets is not None and inverse.dim() != 1:
        raise UsageError(
            f"offsets cut bags out of 1-D ids, and these are {inverse.dim()}-D; leave offsets out where each row of "
            "2-D ids is a bag, or flatten the ids"
        )
    if offsets is None:
        if inverse.dim() != 2:
            raise UsageError(
                f"offsets are missing: ids are {inverse.dim()}-D; pooling {mode!r} takes 2-D ids, a bag in each row, "
                "or 1-D ids with the offsets at which bags begin"
            )
        num_bags, length = inverse.shape
        offsets = torch.arange(num_bags + 1, device=inverse.device) * length
        inverse, include_last_offset = inverse.reshape(-1), True
        weights = None if weights is None else weights.reshape(-1)
    if weights is not None and padding_row is not None:  # a weight of padding says nothing, also where it is no number
        weights = weights.masked_fill(inverse == padding_row, 0.0)
    if not _is_ours(rows):
        return _by_torch(rows, inverse, offsets, mode, include_last_offset, weights, padding_row)
    if weights is not None:
        return weighted_bags(rows, inverse, offsets, weights, include_last_offset)
    pooled: torch.Tensor = _Bags.apply(  # type: ignore[no-untyped-call]
        rows, inverse, offsets, mode == "mean", include_last_offset, -1 if padding_row is None else padding_row
    )
    return pooled


def check_pooling(owner: str, pooling: object, include_last_offset: bool) -> None:
    """UsageError, after the owner's name, if a module cannot pool like this."""
    if pooling not in get_args(Pooling):
        raise UsageError(f"{owner}: pooling must be one of {', '.join(get_args(Pooling))}, got {pooling!r}")
    if include_last_offset and pooling == "none":
        raise UsageError(f"{owner}: include_last_offset is about bags; leave it out, or set pooling to sum or mean")


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


def _by_torch(
    rows: torch.Tensor,
    inverse: torch.Tensor,
    offsets: torch.Tensor,
    mode: str,
    include_last_offset: bool,
    weights: torch.Tensor | None,
    padding_row: int | None,
) -> torch.Tensor:
    """Bags by torch's own operator, without its `padding_idx`, which `torch.export` takes for batches of one size."""
    if mode != "mean" or padding_row is None:
        return functional.embedding_bag(
            inverse, rows, offsets, mode=mode, per_sample_weights=weights, include_last_offset=include_last_offset
        )
    counted = (inverse != padding_row).to(rows.dtype).unsqueeze(1)
    places = torch.arange(inverse.shape[0], device=inverse.device)
    total, count = (
        functional.embedding_bag(which, values, offsets, mode="sum", include_last_offset=include_last_offset)
        for which, values in ((inverse, rows), (places, counted))
    )
    return total / count.clamp(min=1)


def _check_rows(rows: torch.Tensor) -> None:
    if rows.dim() != 2:
        raise UsageError(f"rows must have shape [num_rows, width], got {list(rows.shape)}")


def _check_weights(rows: torch.Tensor, inverse: torch.Tensor, weights: torch.Tensor | None, mode: Pooling) -> None:
    if weights is None:
        return
    if mode != "sum":
        raise UsageError(f"weights need bags that are summed, got mode {mode!r}; set it to 'sum' or leave them out")
    if weights.shape != inverse.shape or weights.dtype != rows.dtype:
        raise UsageError(
            f"weights must be {rows.dtype} of shape {list(inverse.shape)}, one for each id, got {weights.dtype} of "
            f"shape {list(weights.shape)}"
        )


def _is_ours(rows: torch.Tensor) -> bool:
    """Whether the core does it: a compiler must see torch's own operators."""
    is_traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return rows.device.type == "cpu" and rows.dtype == torch.float32 and not is_traced


def _gather(rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
    places: torch.Tensor = _Gather.apply(rows, inverse)  # type: ignore[no-untyped-call]
    return places


# Tensors go to the core as numpy arrays: handing over a tensor itself takes 1 to 3 microseconds more.
class _Gather(torch.autograd.Function):
    """rows [U, D], inverse [S, B] -> [B, S, D]."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
        inverse = plain(inverse)
        num_slots, batch = inverse.shape
        width = rows.shape[1]
        out = torch.empty(batch, num_slots, width, **MEMORY)  # no view, which autograd lets nobody change in place
        _native.gather(plain(rows).numpy(), inverse.numpy(), out.numpy().reshape(batch, num_slots * width))
        ctx.save_for_backward(inverse)
        ctx.rows_shape = rows.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor, None]:
        (inverse,) = ctx.saved_tensors
        num_slots, batch = inverse.shape
        grad_rows = torch.zeros(ctx.rows_shape, **MEMORY)
        _native.scatter(matrix(grad_out, batch, num_slots * ctx.rows_shape[1]), inverse.numpy(), grad_rows.numpy())
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
        padding: int,
    ) -> torch.Tensor:
        inverse, offsets = plain(inverse), plain(offsets)
        out = torch.empty(max(offsets.numel() - include_last_offset, 0), rows.shape[1], **MEMORY)
        _native.pool_bags(
            plain(rows).numpy(), inverse.numpy(), offsets.numpy(), out.numpy(), mean, include_last_offset, padding
        )
        ctx.save_for_backward(inverse, offsets)
        ctx.rows_shape, ctx.how = rows.shape, (mean, include_last_offset, padding)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inverse, offsets = ctx.saved_tensors
        grad_rows = torch.zeros(ctx.rows_shape, **MEMORY)
        grads = matrix(grad_out, *grad_out.shape)
        _native.unpool_bags(grads, inverse.numpy(), offsets.numpy(), grad_rows.numpy(), *ctx.how)
        return grad_rows, None, None, None, None, None


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the core takes it: contiguous, without a gradient, nothing left for later, of torch's own class."""
    return _of_torch(tensor.detach()).resolve_neg().contiguous()


def _of_torch(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as a plain tensor, whose `numpy()` is its memory; that of a subclass may be a copy."""
    return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)


def matrix(grad: torch.Tensor, height: int, width: int) -> npt.NDArray[np.float32]:
    """A gradient as a matrix with contiguous rows; columns of a wider matrix are not copied."""
    grad = _of_torch(grad.detach()).resolve_neg().reshape(height, width)
    return (grad if grad.stride(1) == 1 or width <= 1 else grad.contiguous()).numpy()
