"""Rows of what layers with a weight do: products, rows of a table; and `one_hot`, rows of the identity."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.programs.networks.composed import one_hot_v2
from fleet_paddle.rows.function import function
from fleet_paddle.rows.function_builder import function_builder
from fleet_programs import layers
from fleet_programs.layers.building.alike import padding_row
from fleet_programs.program.variable import Variable

T = torch.Tensor


def _linear(x: T, weight: T, bias: T | None) -> T:
    return F.linear(x, torch.t(weight), bias) if bias is None or x.dim() != 2 else torch.addmm(bias, x, weight)


def _linear_of_variables(x: Variable, weight: Variable, bias: Variable | None, name: str | None) -> Variable:
    layer = function_builder("linear")
    given = layer.variable(x, "x"), layer.variable(weight, "weight")
    # One matrix of all rows, as a fully connected layer has it: what is fused, sent and served is the same then.
    product = (
        layers.mul(*given, x_num_col_dims=x.ndim - 1, name=name) if x.ndim > 1 else layers.matmul(*given, name=name)
    )
    if bias is None:
        return product
    return layer.apply("elementwise_add", {"X": product, "Y": bias}, {"axis": x.ndim - 1}, product.dtype)


def _embedding(x: T, weight: T, padding_idx: int | None, sparse: bool) -> T:
    if padding_idx is None:
        return torch.embedding(weight, x, -1, False, sparse)
    made = F.embedding(x, weight, padding_idx, sparse=sparse)
    return made.masked_fill((x == padding_idx % len(weight)).unsqueeze(-1), 0)


def _embedding_of_variables(
    x: Variable, weight: Variable, padding_idx: int | None, sparse: bool, name: str | None
) -> Variable:
    layer = function_builder("embedding", name)
    inputs = {"W": layer.variable(weight, "weight"), "Ids": layer.variable(x, "x")}
    row = padding_row(layer, padding_idx, weight.shape[0])
    attrs = {"is_sparse": bool(sparse), "is_distributed": False, "padding_idx": row}
    return layer.apply("lookup_table_v2", inputs, attrs, weight.dtype)


FUNCTIONS = [
    function(
        "F.linear(x, weight, bias=None, name)",
        "x times weight, which is [in, out], plus bias.",
        _linear,
        _linear_of_variables,
        num_operands=2,
    ),
    function(
        "F.embedding(x, weight, padding_idx=None, sparse=False, name)",
        "The rows of `weight` for the ids in `x`; that of `padding_idx` reads as zeros and is not trained.",
        _embedding,
        _embedding_of_variables,
        num_operands=2,
    ),
    function(
        "F.one_hot(x, num_classes, name)",
        "A 1 at the place of each label, as floats; the shape of the result is that of `x`, and [num_classes].",
        lambda x, num_classes: F.one_hot(x.long(), num_classes).float(),
        lambda x, num_classes, name: one_hot_v2(x, num_classes),
    ),
]
