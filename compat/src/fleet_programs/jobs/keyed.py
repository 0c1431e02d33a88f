"""Tables whose ids may be any number, in an inference model: their keys and rows beside a lookup that knows both."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from fleet import _native, checkpoint
from fleet.ps.job.spec import TableSpec
from fleet.ps.worker.worker import Worker
from fleet.runtime.saved import saving
from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import complete
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter

LOOKUPS = ("lookup_table", "lookup_table_v2")


def distributed_tables(program: Program) -> set[str]:
    """The tables of a program that are no matrix anywhere."""
    ops = program.global_block().ops
    return {op.input("W")[0] for op in ops if op.type in LOOKUPS and op.attr("is_distributed")}


def with_keys(
    program: Program, worker: Worker, tables: Collection[str], folder: str | PathLike[str]
) -> tuple[Program, dict[str, torch.Tensor]]:
    """The program with keys and rows in the place of these tables, and their values by name.

    Servers write them into a folder of this worker's inside `folder`, which all of them must see, and which is gone
    afterwards.
    """
    between = Path(folder) / f"tables-{worker.client.worker}"  # other workers may save there now
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        saved = checkpoint.read_inference(saving.export(worker, between)).tables
    finally:
        shutil.rmtree(between, ignore_errors=True)
    values: dict[str, torch.Tensor] = {}
    other = program.clone()
    block = other.global_block()
    specs = {spec.name: spec for spec in worker.client.job.tables if spec.name in tables}
    for name, spec in specs.items():
        keys, rows = (torch.from_numpy(array.copy()) for array in saved[name])
        if not len(keys):  # a variable has at least one row: this is what id 0 would have
            keys, rows = torch.zeros(1, dtype=torch.int64), _first(spec)
        block.vars.pop(name, None)
        block.add_var(Parameter(block, name, rows.shape, trainable=False))
        block.create_var(_keys(name), keys.shape, "int64", persistable=True, stop_gradient=True)
        values |= {name: rows, _keys(name): keys}
    block.ops = [
        _lookup(op, block, specs[op.input("W")[0]]) if op.type in LOOKUPS and op.input("W")[0] in specs else op
        for op in block.ops
    ]
    other.changed()
    return other, values


def _keys(table: str) -> str:
    return f"{table}.keys"


def _first(spec: TableSpec) -> torch.Tensor:
    first = spec.initializer
    return torch.from_numpy(
        _native.initialize(first.name, dict(first.args), spec.seed, spec.name, np.zeros(1, np.int64), spec.width)
    )


def _lookup(op: Operator, block: Block, spec: TableSpec) -> Operator:
    first = dict(spec.initializer.args)
    made = Operator(
        "lookup_keyed",
        {"Keys": [_keys(spec.name)], "W": [spec.name], "Ids": op.input("Ids")},
        {"Out": op.output("Out")},
        {
            "drops_last": op.type == "lookup_table",
            "has_padding": op.attr("padding_idx") >= 0,
            "padding_idx": max(op.attr("padding_idx"), 0),
            "initializer": spec.initializer.name,
            "arguments": list(first),
            "numbers": [float(one) for one in first.values()],
            "seed": spec.seed,
            "source": spec.name,
        },
        role=op.role,
        callsite=op.callsite,
        scope=op.scope,
    )
    complete(made, block)
    return made
