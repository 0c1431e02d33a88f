"""Layers that trainers of a collective job take part in together; 1.x keeps them behind names with an underscore."""

from __future__ import annotations

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["all_gather", "all_reduce", "broadcast"]


def all_reduce(
    x: Variable,
    out: Variable | None = None,
    reduce_type: str = "sum",
    ring_id: int = 0,
    use_calc_stream: bool = False,
) -> Variable:
    """The sum of `x` over all trainers, each of which must run it and waits for it, whatever `use_calc_stream` says."""
    del use_calc_stream
    layer = LayerBuilder("c_allreduce")
    _require_one_ring(layer, ring_id)
    value = layer.variable(x, "x")
    if reduce_type != "sum":
        raise layer.error(f"reduce_type must be 'sum', got {reduce_type!r}; gather with paddle.distributed for others")
    target = layer.temporary(value.dtype) if out is None else layer.variable(out, "out")
    target.shape = value.shape
    layer.op("c_allreduce_sum", {"X": value}, {"Out": target})
    return target


def all_gather(x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False) -> Variable:
    """The rows of all trainers, of which there are `nranks`, one behind the other; each must have as many."""
    del use_calc_stream
    layer = LayerBuilder("c_allgather")
    _require_one_ring(layer, ring_id)
    value = layer.variable(x, "x")
    target = layer.temporary(value.dtype)
    first = value.shape[0]
    target.shape = (first * nranks if first > 0 else -1, *value.shape[1:])
    layer.op("c_allgather", {"X": value}, {"Out": target}, {"nranks": int(nranks)})
    return target


def broadcast(x: Variable, root: int = 0, ring_id: int = 0, use_calc_stream: bool = False) -> Variable:
    """`x` as trainer `root` has it, with all."""
    del use_calc_stream
    layer = LayerBuilder("c_broadcast")
    _require_one_ring(layer, ring_id)
    value = layer.variable(x, "x")
    layer.op("c_broadcast", {"X": value}, {"Out": value}, {"root": int(root)})
    return value


def _require_one_ring(layer: LayerBuilder, ring_id: int) -> None:
    """Another ring may have fewer trainers, and then another sum."""
    if ring_id != 0:
        raise layer.error(f"ring_id must be 0, the ring of all trainers, got {ring_id!r}")
