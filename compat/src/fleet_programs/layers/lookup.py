"""`embedding`: a trained row for each id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleet_programs.definition.dtypes import FLOATS, canonical
from fleet_programs.layers.building.alike import padding_row
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["embedding", "embedding_v2"]


def _embedding(drops_last: bool) -> Callable[..., Variable]:
    """The layer, which may drop a last size of 1 in the shape of the ids."""

    def embedding(
        input: Variable,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> Variable:
        """The rows of a table of `size` [ids, width] for `input`, int64 ids.

        `embedding` drops a last size of 1 in their shape; the result of `embedding_v2` is always shaped as `input`, and
        [width]. With `is_sparse` the gradient has only the rows of the batch. With `is_distributed` the rows are on
        servers only, ids may be any int64, and `size[0]` is the most distinct ids there can be. The row `padding_idx`
        reads as zeros and is not trained; below 0 it counts from the end.
        """
        layer = LayerBuilder("embedding")
        has_last = drops_last and layer.variable(input).shape[-1:] == (1,)
        kind = canonical(dtype)
        if kind not in FLOATS:
            raise layer.error(f"dtype must be a float, got {kind}")
        if len(size) != 2:
            raise layer.error(f"size must be [number of ids, width], got {list(size)}")
        row = padding_row(layer, padding_idx, size[0])
        table = layer.needed(param_attr, size, kind, is_distributed=is_distributed)
        attrs = {"is_sparse": bool(is_sparse), "is_distributed": bool(is_distributed), "padding_idx": row}
        type = "lookup_table" if has_last else "lookup_table_v2"
        return layer.apply(type, {"W": table, "Ids": layer.variable(input)}, attrs, kind)

    return embedding


embedding = _embedding(drops_last=True)
embedding_v2 = _embedding(drops_last=False)
embedding_v2.__name__ = "embedding_v2"
