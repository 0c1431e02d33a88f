"""`Plan`: what a program asks of its servers, as plain data that travels in the program's notes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleet.errors import UsageError
from fleet.json_form import JsonForm
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.spec import JobSpec
from fleet.strategy.mode import Mode
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.arguments import Arguments
from fleet_programs.transpiler.planning.rules import WHOLE, rule_of
from fleet_programs.transpiler.planning.slicing import Piece, place
from fleet_programs.transpiler.planning.tables import find_tables, table_of
from fleet_programs.transpiler.planning.updates import ParameterUpdate, Rate, updates_of


@dataclass(frozen=True)
class Plan(JsonForm):
    """A job of servers: who holds what, and at which rates it is trained.

    First values of dense parameters come from the startup program, rates from variables of the trainer's program.
    """

    job: JobSpec
    endpoints: tuple[str, ...]
    """Of the servers; none: the one server of the job is in the trainer's process."""
    trainer_id: int
    dense_rates: tuple[Rate, ...]
    """One for each dense group."""
    table_rates: tuple[Rate, ...]
    """One for each table."""
    k_steps: int = 0
    """Between two exchanges, in geo mode; 0 in the others."""

    @property
    def dense(self) -> list[str]:
        """The dense parameters, in order."""
        return [name for name, _ in self.job.dense.shapes]

    @property
    def tables(self) -> list[str]:
        """The names of the tables, in order."""
        return [table.name for table in self.job.tables]

    @property
    def rate_variables(self) -> list[str]:
        """The variables that rates are read from, each once."""
        return list(dict.fromkeys(rate.variable for rate in (*self.dense_rates, *self.table_rates)))

    def to_note(self) -> Any:
        """As a note of a program: JSON values."""
        return json.loads(self.to_json())

    @classmethod
    def from_note(cls, note: Any) -> Plan:
        """The plan of a note."""
        plan = cls.from_json(json.dumps(note))
        # A program that was read from text has the names of an object sorted; blocks are a list and keep the order.
        dense = plan.job.dense
        shapes = dict(dense.shapes)
        order = dict.fromkeys(block.parameter for block in dense.blocks)
        ordered = replace(dense, shapes=tuple((name, shapes[name]) for name in order))
        return replace(plan, job=replace(plan.job, dense=ordered))

    def report(self) -> str:
        """Which server holds what, for people."""
        lines = [f"{self.job.mode} training, {self.job.num_workers} trainers, servers {', '.join(self.endpoints)}"]
        lines += [
            f"  {block.parameter}[{block.begin}:{block.end}] on {self.endpoints[block.server]}"
            for block in self.job.dense.blocks
        ]
        lines += [f"  table {table.name}, {table.width} wide, rows on all servers" for table in self.job.tables]
        return "\n".join(lines)


def make_plan(program: Program, startup: Program, arguments: Arguments) -> Plan:
    """What a trained program asks of the servers; UsageError if they cannot do it."""
    updates = updates_of(program)
    tables = find_tables(program)
    _check(updates, arguments)
    in_tables = [update for update in updates if update.name in tables]
    dense, rates = _dense(
        [update for update in updates if update.name not in tables], program.global_block(), arguments
    )
    return Plan(
        JobSpec(
            arguments.num_trainers,
            max(1, len(arguments.endpoints)),
            str(arguments.mode),
            tables=tuple(table_of(update, program, startup) for update in in_tables),
            dense=dense,
        ),
        arguments.endpoints,
        arguments.trainer_id,
        rates,
        tuple(update.rate for update in in_tables),
        arguments.k_steps,
    )


def _dense(
    updates: Sequence[ParameterUpdate], block: Block, arguments: Arguments
) -> tuple[DenseSpec, tuple[Rate, ...]]:
    """Parameters with equal rules and rates share a group; those that are measured whole are alone in theirs."""
    groups: list[tuple[RuleSpec, Rate]] = []
    pieces = []
    for update in updates:
        key = (rule_of(update.op, block, is_applied=arguments.mode is not Mode.GEO), update.rate)
        is_whole = key[0].name in WHOLE
        if is_whole or key not in groups:
            groups.append(key)
        group = len(groups) - 1 if is_whole else groups.index(key)
        pieces.append(Piece(update.name, update.parameter.shape, group, is_whole))
    shapes = tuple((piece.name, piece.shape) for piece in pieces)
    spec = DenseSpec(tuple(rule for rule, _ in groups), shapes, place(pieces, arguments))
    return spec, tuple(rate for _, rate in groups)


def _check(updates: Sequence[ParameterUpdate], arguments: Arguments) -> None:
    seen: set[str] = set()
    for update in updates:
        if update.name in seen:
            raise UsageError(f"parameter {update.name!r} is trained by two optimizers; call minimize() once")
        seen.add(update.name)
        if update.is_clipped and arguments.mode is Mode.SYNC and arguments.num_trainers > 1:
            raise UsageError(
                f"the gradient of {update.name!r} is clipped, and a mean of clipped gradients is not the clipped mean: "
                'training would not equal that in one process; use config.mode = "nccl2", or sync_mode=False'
            )
