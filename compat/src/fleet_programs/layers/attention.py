"""Attention over heads that were cut before."""

from __future__ import annotations

from math import sqrt

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Variable:
    """softmax(query x key^T * scale) x value, in one kernel that never writes the product down, as torch's.

    All are [batch, heads, length, width]; with `is_causal` no query sees keys after its own place. `scale` is one over
    the root of the width when left out.
    """
    layer = LayerBuilder("scaled_dot_product_attention", name)
    q, k, v = (layer.variable(one, what) for one, what in ((query, "query"), (key, "key"), (value, "value")))
    width = q.shape[-1] if q.ndim else 1
    out, sums = layer.temporary(q.dtype), layer.temporary("float32", stop_gradient=True)
    attrs = {"is_causal": bool(is_causal), "scale": 1 / sqrt(max(1, width)) if scale is None else float(scale)}
    layer.op("scaled_dot_product_attention", {"Q": q, "K": k, "V": v}, {"Out": out, "LogSumExp": sums}, attrs)
    return out
