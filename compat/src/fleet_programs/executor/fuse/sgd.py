"""A gradient that only `sgd` reads is never made: the product that it would hold is added to the parameter directly.

On the CPU alone: there a learning rate is a number at no cost, which on a GPU would be a wait.
"""

from __future__ import annotations

from fleet_programs.definition.operator import Operator
from fleet_programs.executor.fuse.ops import Ops


def fuse_sgd(ops: Ops) -> list[Operator]:
    """The parameter's half of mul_grad or elementwise_add_grad, sgd -> fused_mul_sgd, fused_bias_sgd."""
    if not ops.on_host:
        return ops.ops
    gone: list[Operator] = []
    made: dict[int, Operator] = {}
    for sgd in ops:
        if sgd.type != "sgd" or sgd.attr("regularization_method"):
            continue
        gradient = sgd.input("Grad")[0]
        if ops.only_reader(gradient) is not sgd:
            continue
        if (mul := ops.writer(gradient, "mul_grad")) is not None and _is_plain(ops, mul, gradient):
            fused, inputs = "fused_mul_sgd", {"X": mul.input("X"), "Out@GRAD": mul.input("Out@GRAD")}
            before = mul
        elif (add := ops.writer(gradient, "elementwise_add_grad")) is not None and _is_bias(ops, add, gradient):
            fused, inputs = "fused_bias_sgd", {"Out@GRAD": add.input("Out@GRAD")}
            before = add
        else:
            continue
        if not ops.is_kept([name for names in inputs.values() for name in names], before, sgd):
            continue
        parameter = {"Param": sgd.input("Param"), "LearningRate": sgd.input("LearningRate")}
        made[id(sgd)] = Operator(
            fused, {**inputs, **parameter}, {"ParamOut": sgd.output("ParamOut")}, role=sgd.role, callsite=sgd.callsite
        )
        other = made.get(id(before), before).copy()
        del other.outputs["Y@GRAD"]
        if other.outputs:
            made[id(before)] = other
        else:
            gone.append(before)
            made.pop(id(before), None)
    return ops.replaced(gone, made)


def _is_plain(ops: Ops, mul: Operator, gradient: str) -> bool:
    is_matrix = all(len(ops.var(mul.input(slot)[0]).shape) == 2 for slot in ("X", "Y"))
    return is_matrix and mul.output("Y@GRAD") == [gradient] and not ops.var(mul.input("X")[0]).persistable


def _is_bias(ops: Ops, add: Operator, gradient: str) -> bool:
    out, bias = ops.var(add.input("Out@GRAD")[0]).shape, ops.var(gradient).shape
    return len(out) == 2 and bias == out[1:] and add.output("Y@GRAD") == [gradient] and add.attr("axis") in (-1, 1)
