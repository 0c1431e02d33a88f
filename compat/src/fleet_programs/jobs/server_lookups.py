"""Lets a program that was cloned for evaluation before it was cut look up rows that are on servers."""

from __future__ import annotations

from collections.abc import Container, Sequence

from fleet.errors import UsageError
from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import blocks_of
from fleet_programs.transpiler.passes.prefetch import lookup_attrs
from fleet_programs.transpiler.planning.updates import LOOKUPS, is_update


def with_server_lookups(ops: Sequence[Operator], block: Block, tables: Container[str]) -> list[Operator]:
    """The operators of a block, with requests to servers in place of lookups in tables.

    Lookups whose ids are fed, or known at once, are one request; the others are one each. UsageError if the operators
    would train such a table themselves.
    """
    for op in ops:
        if is_update(op) and op.input("Param")[0] in tables:
            raise UsageError(
                f"this program trains {op.input('Param')[0]!r} by itself, and in this scope its rows are on servers; "
                "run it in a Scope of its own"
            )
        if blocks_of(op) and (inside := [name for name in op.input_names if name in tables]):
            raise UsageError(
                f"{op.type} of this program looks up {inside[0]!r} in a branch or loop, and its rows are on servers; "
                "look it up before, or run the program in a Scope of its own"
            )
    lookups = [op for op in ops if op.type in LOOKUPS and op.input("W")[0] in tables]
    if not lookups:
        return list(ops)
    written = {name for op in ops for name in op.output_names}
    first = [op for op in lookups if op.input("Ids")[0] not in written]
    groups = [first, *([op] for op in lookups if op not in first)]
    made = {id(group[0]): _request(group, block) for group in groups if group}
    gone = {id(op) for op in lookups} - made.keys()
    return [made.get(id(op), op) for op in ops if id(op) not in gone]


def _request(lookups: Sequence[Operator], block: Block) -> Operator:
    return Operator(
        "prefetch",
        {"Ids": [op.input("Ids")[0] for op in lookups]},
        {"Out": [op.output("Out")[0] for op in lookups]},
        lookup_attrs(lookups, block),
        callsite=lookups[0].callsite,
        parts=lookups,
    )
