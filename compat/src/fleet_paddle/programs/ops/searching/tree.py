"""Trees over items: nodes drawn beside an item's ancestors, layer by layer, and the children of nodes.

A node is a number from 1; 0 is no node.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import INTEGERS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.tensors.noise import source

FIRST_CHILD = 3
"""Where children begin in a row of a tree, after the item, the layer and the parent."""


def _infer_sampler(infer: Infer) -> None:
    for slot in ("X", "Travel", "Layer"):
        infer.require_dtype(slot, INTEGERS)
    drawn, offsets = infer.attr("neg_samples_num_list"), infer.attr("layer_offset_lod")
    sizes = [end - begin for begin, end in pairwise(offsets)]
    if len(drawn) != len(sizes) or any(not 0 <= few < many for few, many in zip(drawn, sizes, strict=True)):
        raise infer.fail(
            f"neg_samples_num_list must have a number below the layer's size for each layer, got {list(drawn)} for "
            f"layers of {sizes} nodes"
        )
    width = sum(drawn) + len(drawn) * infer.attr("output_positive")
    for slot in ("Out", "Labels", "Mask"):
        infer.set(slot, (infer.shape("X")[0], width, 1), infer.attr("dtype"))


@register(
    "tdm_sampler",
    inputs=("X", "Travel", "Layer"),
    outputs=("Out", "Labels", "Mask"),
    attrs={
        "neg_samples_num_list": [],
        "layer_offset_lod": [0],
        "output_positive": True,
        "seed": 0,
        "dtype": "int64",
    },
    infer=_infer_sampler,
    is_random=True,
)
def _tdm_sampler(op: Operator, lowering: Lowering) -> Kernel:
    """For each layer the item's ancestor, labelled 1, and other nodes of the layer, no node twice, labelled 0.

    A layer that an item's path does not reach, where its ancestor is 0, has zeros everywhere, and a mask of 0.
    """
    drawn, offsets, draw = op.attr("neg_samples_num_list"), op.attr("layer_offset_lod"), source(op, lowering)
    has_positive, dtype = op.attr("output_positive"), torch_dtype(op.attr("dtype"))

    def sample(x: torch.Tensor, travel: torch.Tensor, layer: torch.Tensor) -> Any:
        generator, nodes = draw(), layer.reshape(-1)
        paths = _rows(travel, x.reshape(-1), "tdm_sampler: an item", op.input("X")[0])
        outs, labels, masks = [], [], []
        for place, few in enumerate(drawn):
            others, ancestor = nodes[offsets[place] : offsets[place + 1]], paths[:, place : place + 1]
            order = torch.rand(len(x), len(others), generator=generator, device=x.device)
            order.masked_fill_(others == ancestor, 2.0)  # after all others
            found = others[order.argsort(1)[:, :few]]
            label = torch.zeros_like(found)
            if has_positive:
                found, label = torch.cat([ancestor, found], 1), torch.cat([torch.ones_like(ancestor), label], 1)
            reached = (ancestor != 0).to(found.dtype)
            outs.append(found * reached)
            labels.append(label * reached)
            masks.append(reached.expand_as(found))
        return tuple(torch.cat(parts, 1).to(dtype).unsqueeze(2) for parts in (outs, labels, masks))

    return sample


def _infer_child(infer: Infer) -> None:
    for slot in ("X", "TreeInfo"):
        infer.require_dtype(slot, INTEGERS)
    infer.require_rank("TreeInfo", 2)
    width, wanted = infer.shape("TreeInfo")[1], infer.attr("child_nums")
    if wanted < 1 or width < FIRST_CHILD + wanted:
        raise infer.fail(f"child_nums must be from 1 to {width - FIRST_CHILD}, got {wanted}")
    for slot in ("Child", "LeafMask"):
        infer.set(slot, (*infer.shape("X"), wanted), infer.attr("dtype"))


@register(
    "tdm_child",
    inputs=("X", "TreeInfo"),
    outputs=("Child", "LeafMask"),
    attrs={"child_nums": 1, "dtype": "int64"},
    infer=_infer_child,
)
def _tdm_child(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """The children of each node, 0 where it has none; the mask is 1 for a child that is an item."""
    wanted, dtype = op.attr("child_nums"), torch_dtype(op.attr("dtype"))

    def child(x: torch.Tensor, tree: torch.Tensor) -> Any:
        rows = _rows(tree, x, "tdm_child: a node", op.input("X")[0])
        has_any = ((x != 0) & (rows[..., FIRST_CHILD] != 0)).unsqueeze(-1)
        found = (rows[..., FIRST_CHILD : FIRST_CHILD + wanted] * has_any).long()
        return found.to(dtype), ((tree[found][..., 0] != 0) & has_any).to(dtype)

    return child


def _rows(table: torch.Tensor, places: torch.Tensor, what: str, name: str) -> torch.Tensor:
    """Rows of a table; on a CPU, where looking costs nothing, UsageError for a place that it does not have."""
    if table.device.type == "cpu" and places.numel():
        low, high = (int(one) for one in places.aminmax())
        if low < 0 or high >= len(table):
            raise UsageError(f"{what} must be from 0 to {len(table) - 1}, got {low} to {high} in {name!r}")
    return table[places.long()]
