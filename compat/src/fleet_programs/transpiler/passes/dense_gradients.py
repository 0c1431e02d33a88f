"""`dense_gradients`: sparse gradients of parameters that are no tables become dense, as servers want them."""

from __future__ import annotations

from fleet_programs.definition.kinds import ROWS, TENSOR
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import LOOKUPS
from fleet_programs.transpiler.planning.verify import verified


@verified
def dense_gradients(program: Program, plan: Plan) -> Program:
    """The program in which the gradients of the plan's dense parameters are not sparse.

    Such a parameter has a use besides lookups, or one lookup of it is dense; its rows cannot be on servers only.
    """
    other = program.clone()
    dense = set(plan.dense)
    for op in (op for block in other.blocks for op in block.ops):
        if op.attrs.get("by_rows"):
            op.attrs["by_rows"] = [name for name in op.attrs["by_rows"] if name not in dense]
        trained = op.input("W") if op.type in LOOKUPS else [name.split("@GRAD")[0] for name in op.output_names]
        if op.attrs.get("is_sparse") and dense.intersection(trained):
            op.attrs["is_sparse"] = False
    for name, var in ((name, var) for block in other.blocks for name, var in block.vars.items()):
        if var.kind == ROWS and "@GRAD" in name and name.split("@GRAD")[0] in dense:
            var.kind = TENSOR
    other.changed()
    return other
