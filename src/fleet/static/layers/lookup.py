"""`embedding`: a trained row for each id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.static.dtypes import FLOATS, canonical
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = ["embedding", "embedding_v2"]


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """The rows of a table of `size` [ids, width] for `input`, int64 ids; a last size of 1 in their shape is dropped.

    With `is_sparse` the gradient has only the rows of the batch. With `is_distributed` the rows are on servers only,
    ids may be any int64, and `size[0]` is the most distinct ids there can be. The row `padding_idx` reads as zeros and
    is not trained; below 0 it counts from the end.
    """
    has_last = tuple(getattr(input, "shape", ()))[-1:] == (1,)
    return _lookup(
        "lookup_table" if has_last else "lookup_table_v2",
        input,
        size,
        is_sparse,
        is_distributed,
        padding_idx,
        param_attr,
        dtype,
    )


def embedding_v2(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """`embedding` of ids that have no size of 1 to drop: the result is always shaped as `input`, and [width]."""
    return _lookup("lookup_table_v2", input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def _lookup(
    type: str,
    input: Variable,
    size: Sequence[int],
    is_sparse: bool,
    is_distributed: bool,
    padding_idx: int | None,
    param_attr: Any,
    dtype: Any,
) -> Variable:
    layer = Layer("embedding")
    layer.variable(input)
    dtype = canonical(dtype)
    if dtype not in FLOATS:
        raise layer.error(f"dtype must be a float, got {dtype}")
    if len(size) != 2:
        raise layer.error(f"size must be [number of ids, width], got {list(size)}")
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    if padding_idx is not None and not 0 <= padding < size[0]:
        raise layer.error(f"padding_idx must be from {-size[0]} to {size[0] - 1}, got {padding_idx}")
    table = layer.parameter(param_attr, size, dtype, is_distributed=is_distributed)
    if table is None:
        raise layer.error("param_attr must not be False; a table is what an embedding is")
    out = layer.temporary(dtype)
    attrs = {"is_sparse": bool(is_sparse), "is_distributed": bool(is_distributed), "padding_idx": padding}
    layer.op(type, {"W": table, "Ids": input}, {"Out": out}, attrs)
    return out
