"""`find_tables`: which parameters live in tables, by rows and on servers only."""

from __future__ import annotations

from fleet.errors import NotSupportedError, UsageError
from fleet.ps.job import initializers
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec
from fleet.ps.job.spec import TableSpec
from fleet_programs.definition.operator import Operator
from fleet_programs.program.notes import ENTRIES_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.transpiler.planning.rules import rule_of
from fleet_programs.transpiler.planning.updates import LOOKUPS, ParameterUpdate, is_update, updates_of


def find_tables(program: Program) -> list[str]:
    """The trained parameters that nothing but sparse lookups read, in the order of their updates.

    UsageError for one that is_distributed, and can only be a table, but has another use or no optimizer.
    """
    trained = {update.name for update in updates_of(program)}
    block = program.global_block()
    sparse: dict[str, bool] = {}  # read by lookups only, all of them sparse
    distributed = _distributed(program)
    other: dict[str, Operator] = {}
    for op in block.ops:
        if op.type in LOOKUPS:
            name = op.input("W")[0]
            sparse[name] = sparse.get(name, True) and (op.attr("is_sparse") or op.attr("is_distributed"))
        elif not is_update(op):
            for name in op.input_names:
                if isinstance(block.var(name), Parameter):
                    other.setdefault(name, op)
    inside = {op.input("W")[0] for inner in program.blocks[1:] for op in inner.ops if op.type in LOOKUPS}
    for name in sorted(distributed):
        if name in inside:
            raise UsageError(
                f"parameter {name!r} is distributed, and a branch or loop looks it up, where its rows cannot be asked "
                "for ahead; look them up before it, or use is_distributed=False"
            )
        if name in other:
            raise UsageError(
                f"parameter {name!r} is distributed, so only lookups can read it, but {other[name].type} does too; use "
                "is_distributed=False"
            )
        if name not in trained:
            raise UsageError(
                f"parameter {name!r} is distributed and no optimizer trains it; its rows would be nowhere: leave it "
                "trainable, or use is_distributed=False"
            )
    return [
        update.name
        for update in updates_of(program)
        if (sparse.get(update.name, False) or update.name in distributed) and update.name not in other
    ]


def table_of(update: ParameterUpdate, program: Program, startup: Program) -> TableSpec:
    """The table of a parameter: its columns, first values, rule and entry.

    One that is distributed takes any ids, but only as many as it has rows, or with one row as many as come; those of
    others are row numbers. Like the
    matrix of one process, a table has first values wherever it was not trained, in evaluation too.
    """
    parameter = update.parameter
    _refuse_other_readers(update, program)
    initializer, seed = _initializer(parameter, startup)
    entry = program.notes.get(ENTRIES_NOTE, {}).get(update.name)
    return TableSpec(
        update.name,
        parameter.shape[1],
        rule_of(update.op, program.global_block()),
        initializer,
        AlwaysEntry() if entry is None else EntrySpec.from_json(entry),
        seed=seed,
        max_rows=parameter.shape[0] if parameter.shape[0] > 1 and update.name in _distributed(program) else 0,
        unseen="initial" if entry is None else "zeros",
    )


def _distributed(program: Program) -> set[str]:
    ops = [op for block in program.blocks for op in block.ops]
    lookups = {op.input("W")[0] for op in ops if op.type in LOOKUPS and op.attr("is_distributed")}
    return lookups | {var.name for var in program.global_block().parameters if var.is_distributed}


def _refuse_other_readers(update: ParameterUpdate, program: Program) -> None:
    """A row's gradient goes to its server as it is; whoever else wants to see or change it cannot."""
    for op in program.global_block().ops:
        if update.raw in op.input_names and op is not update.op:
            raise UsageError(
                f"{op.type} reads the gradient of {update.name!r}, whose rows are on servers; exempt it from gradient "
                "clip with ParamAttr(need_clip=False), or use is_sparse=False"
            )


def not_started(name: str) -> UsageError:
    """The error about a startup program that is not that of the parameters."""
    return UsageError(
        f"the startup program does not initialise {name!r}; give transpile() the one that does: startup_program=..."
    )


def _initializer(parameter: Variable, startup: Program) -> tuple[InitializerSpec, int]:
    writers = [op for op in startup.global_block().ops if parameter.name in op.output_names]
    op = writers[-1] if writers else None
    if op is None:
        raise not_started(parameter.name)
    seed = int(op.attrs.get("seed", 0)) or startup.random_seed
    if op.type == "fill_constant":
        return initializers.Constant(op.attr("value")), seed
    if op.type == "uniform_random":
        return initializers.Uniform(op.attr("min"), op.attr("max")), seed
    if op.type == "gaussian_random":
        return initializers.Normal(op.attr("mean"), op.attr("std")), seed
    if op.type == "truncated_gaussian_random":
        return initializers.TruncatedNormal(op.attr("mean"), op.attr("std")), seed
    raise NotSupportedError(
        f"table {parameter.name!r} is initialised by {op.type}; rows on servers begin as Constant, Uniform, Normal, "
        "TruncatedNormal, Xavier or MSRA"
    )
