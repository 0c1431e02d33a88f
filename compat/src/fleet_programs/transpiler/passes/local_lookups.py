"""`local_lookups`: the way back from `prefetch`, for what is done with a trainer's program in one process.

{Out=[emb_0, emb_1]} = prefetch(Ids=[words, title])    ->    {Out=emb_0} = lookup_table(W=table, Ids=words), ...
"""

from __future__ import annotations

from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import complete
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.verify import verified


@verified
def local_lookups(program: Program, plan: Plan) -> Program:
    """The evaluation part of a trainer's program, with parameters in the place of the plan's tables."""
    other = program.clone(for_test=True)
    block = other.global_block()
    for parameter in tables_as_parameters(program, plan):
        if parameter.name not in block.vars:
            parameter.block = block
            block.vars[parameter.name] = parameter
    block.ops = [one for op in block.ops for one in (_lookups(op, block) if op.type == "prefetch" else [op])]
    other.changed()
    return other


def tables_as_parameters(program: Program, plan: Plan) -> list[Parameter]:
    """What each table of a plan was before its program was cut."""
    block = program.global_block()
    heights = {
        name: height
        for op in block.ops
        if op.type == "prefetch"
        for name, height in zip(op.attr("tables"), op.attr("heights"), strict=True)
    }
    return [
        Parameter(
            block,
            table.name,
            (heights.get(table.name) or max(1, table.max_rows), table.width),
            is_distributed=not heights.get(table.name),
        )
        for table in plan.job.tables
    ]


def _lookups(request: Operator, block: Block) -> list[Operator]:
    found = []
    for number, table in enumerate(request.attr("tables")):
        op = Operator(
            "lookup_table" if request.attr("drops_last")[number] else "lookup_table_v2",
            {"W": [table], "Ids": [request.input("Ids")[number]]},
            {"Out": [request.output("Out")[number]]},
            {
                "is_sparse": True,
                "is_distributed": not request.attr("heights")[number],
                "padding_idx": request.attr("padding_idx")[number],
            },
            role=request.role,
            callsite=request.callsite,
            scope=request.scope,
        )
        complete(op, block)
        found.append(op)
    return found
