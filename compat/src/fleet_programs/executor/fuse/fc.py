"""`mul`, `elementwise_add` of a bias and an activation become one matrix product that ends in place."""

from __future__ import annotations

from fleet_programs.definition.operator import Operator
from fleet_programs.executor.fuse.ops import Ops

ACTIVATIONS = frozenset({"relu", "tanh", "sigmoid"})


def fuse_fc(ops: Ops) -> list[Operator]:
    """x * w, + b, activation -> fused_fc."""
    gone: list[Operator] = []
    made: dict[int, Operator] = {}
    for mul in ops:
        add = _bias_of(ops, mul)
        if add is None:
            continue
        last, act = add, ""
        after = ops.only_reader(add.output("Out")[0])
        if after is not None and after.type in ACTIVATIONS:
            last, act = after, after.type
        if not ops.is_kept([*mul.input_names, *add.input("Y")], mul, last):
            continue
        gone += [mul, add, last]
        made[id(last)] = Operator(
            "fused_fc",
            {"X": mul.input("X"), "Y": mul.input("Y"), "Bias": add.input("Y")},
            {"Out": last.output("Out")},
            {
                "act": act,
                "is_native": ops.on_host and ops.var(last.output("Out")[0]).dtype == "float32",
                "x_num_col_dims": mul.attr("x_num_col_dims"),
            },
            callsite=mul.callsite,
        )
    return ops.replaced(gone, made)


def _bias_of(ops: Ops, mul: Operator) -> Operator | None:
    """The addition of a bias to a product with a matrix."""
    if mul.type != "mul" or len(ops.var(mul.input("Y")[0]).shape) != 2 or mul.attr("y_num_col_dims") != 1:
        return None
    add = ops.only_reader(mul.output("Out")[0])
    if add is None or add.type != "elementwise_add" or add.input("X") != mul.output("Out"):
        return None
    has_width = ops.var(add.input("Y")[0]).shape == ops.var(mul.input("Y")[0]).shape[1:]
    return add if has_width and add.attr("axis") in (-1, mul.attr("x_num_col_dims")) else None
