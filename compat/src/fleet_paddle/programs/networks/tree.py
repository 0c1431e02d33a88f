"""Tree-based retrieval: what `fluid.contrib.layers` has for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from fleet_paddle.programs.ops.searching.tree import FIRST_CHILD
from fleet_programs.definition.dtypes import canonical
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import reshape, slice
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.variable import Variable

__all__ = ["tdm_child", "tdm_sampler"]

Several = Variable | list[Variable]


def tdm_sampler(
    x: Variable,
    neg_samples_num_list: Sequence[int],
    layer_node_num_list: Sequence[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: Any = "int32",
    dtype: Any = "int32",
) -> tuple[Several, Several, Several]:
    """(nodes, labels, masks): for each item of `x`, [rows, 1], and each layer of a tree its ancestor and other nodes.

    The tree is in two parameters that are not trained, and 0 at first: the ancestors of each item, [items, layers], and
    the nodes of all layers, one after the other, [nodes, 1]. With `output_list` there is one variable for each layer,
    [rows, nodes, 1], else one of all.
    """
    layer = LayerBuilder("tdm_sampler")
    kind, drawn = canonical(tree_dtype), [int(one) for one in neg_samples_num_list]
    offsets = [0, *accumulate(int(one) for one in layer_node_num_list)]
    travel = _kept(layer, tree_travel_attr, [leaf_node_num, len(drawn)], kind)
    nodes = _kept(layer, tree_layer_attr, [offsets[-1], 1], kind)
    outs = [layer.temporary(canonical(dtype), stop_gradient=True) for _ in range(3)]
    layer.op(
        "tdm_sampler",
        {"X": layer.variable(x, "x"), "Travel": travel, "Layer": nodes},
        dict(zip(("Out", "Labels", "Mask"), outs, strict=True)),
        {
            "neg_samples_num_list": drawn,
            "layer_offset_lod": offsets,
            "output_positive": bool(output_positive),
            "seed": int(seed),
            "dtype": canonical(dtype),
        },
    )
    if not output_list:
        return outs[0], outs[1], outs[2]
    ends = list(accumulate(few + bool(output_positive) for few in drawn))
    parts = [[_part(one, begin, end) for begin, end in zip([0, *ends], ends, strict=False)] for one in outs]
    return parts[0], parts[1], parts[2]


def tdm_child(
    x: Variable, node_nums: int, child_nums: int, param_attr: Any = None, dtype: Any = "int32"
) -> tuple[Variable, Variable]:
    """(children, masks) of nodes, each [..., child_nums]: 0 where there is none; a mask is 1 where a child is an item.

    The tree is a parameter that is not trained, and 0 at first, [nodes, 3 + child_nums]: item, layer, parent, children.
    """
    layer = LayerBuilder("tdm_child")
    tree = _kept(layer, param_attr, [node_nums, FIRST_CHILD + child_nums], "int32")
    child, mask = (layer.temporary(canonical(dtype), stop_gradient=True) for _ in range(2))
    layer.op(
        "tdm_child",
        {"X": layer.variable(x, "x"), "TreeInfo": tree},
        {"Child": child, "LeafMask": mask},
        {"child_nums": int(child_nums), "dtype": canonical(dtype)},
    )
    return child, mask


def _kept(layer: LayerBuilder, attr: Any, shape: list[int], dtype: str) -> Variable:
    """A parameter of whole numbers, which nothing trains."""
    made = layer.needed(attr, shape, dtype, default=Constant(0))
    made.stop_gradient = True
    return made


def _part(var: Variable, begin: int, end: int) -> Variable:
    made: Variable = reshape(slice(var, axes=[1], starts=[begin], ends=[end]), [-1, end - begin, 1])
    made.stop_gradient = True
    return made
