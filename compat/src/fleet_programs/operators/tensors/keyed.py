"""`lookup_keyed`, for inference: rows of a table whose ids may be any number, of keys with a row for each."""

from __future__ import annotations

import torch

from fleet import _native
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

_IDS = frozenset({"int64", "int32"})


def _infer(infer: Infer) -> None:
    infer.require_dtype("Ids", _IDS)
    infer.require_dtype("Keys", frozenset({"int64"}))
    infer.require_rank("W", 2)
    keys, table, ids = infer.var("Keys"), infer.var("W"), infer.var("Ids")
    if keys.shape != table.shape[:1]:
        raise infer.fail(f"Keys must have shape [{table.shape[0]}], one for each row of W, got {list(keys.shape)}")
    if infer.attr("drops_last") and ids.shape[-1:] != (1,):
        raise infer.fail(f"the last size of Ids {ids.name!r} must be 1, got shape {list(ids.shape)}")
    shape = ids.shape[:-1] if infer.attr("drops_last") else ids.shape
    infer.set("Out", (*shape, table.shape[1]), table.dtype, lod=ids.lod)


@register(
    "lookup_keyed",
    inputs=("Keys", "W", "Ids"),
    attrs={
        "drops_last": False,
        "has_padding": False,
        "padding_idx": 0,
        "initializer": "constant",
        "arguments": ["value"],
        "numbers": [0.0],
        "seed": 0,
        "source": "",
    },
    infer=_infer,
)
def _make(op: Operator, lowering: Lowering) -> Kernel:
    """An id without a row has the first values that a server would give it."""
    width, drops_last = lowering.shape(op.input("W")[0])[1], op.attr("drops_last")
    first = op.attr("initializer"), dict(zip(op.attr("arguments"), op.attr("numbers"), strict=True)), op.attr("seed")

    def lookup(keys: torch.Tensor, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        asked = (ids.squeeze(-1) if drops_last else ids).long()
        flat = asked.reshape(-1)
        places = torch.searchsorted(keys, flat).clamp_(max=max(len(keys) - 1, 0))
        is_known = keys[places] == flat if len(keys) else torch.zeros_like(flat, dtype=torch.bool)
        rows = table[places] if len(keys) else table.new_empty(len(flat), width)
        new = flat[~is_known]
        if len(new):
            made = _native.initialize(*first, op.attr("source"), new.cpu().numpy(), width)
            rows[~is_known] = torch.from_numpy(made).to(rows)
        if op.attr("has_padding"):
            rows[flat == op.attr("padding_idx")] = 0
        return rows.view(*asked.shape, width)

    return lookup
