"""What servers saved, as the variables of a program without servers: parameters, rows, and the state of their rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fleet import _native, checkpoint
from fleet.strategy.mode import Mode
from fleet_programs.definition.registry import definition
from fleet_programs.executor.scope import Scope
from fleet_programs.jobs.values import Values, first_values, rows_of
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.rules import rule_of
from fleet_programs.transpiler.planning.updates import ParameterUpdate, updates_of

COUNT = "Step"
"""It comes last, as a scalar: one for a dense block, one for every row of a table."""
NOT_KEPT = frozenset({"Param", "Grad", "LearningRate", COUNT})


class Kept(NamedTuple):
    """What servers keep of a parameter beside its values."""

    rule: str
    native: _native.Rule
    slots: list[str]
    """The accumulators; an update operator has them in the order of its rule."""


def restore(program: Program, folder: Path, scope: Scope) -> Values:
    """The values of a program's trained variables in a checkpoint that servers wrote.

    Rows that the servers never had begin as `scope` has them. Servers of geo mode have no accumulators: those of dense
    parameters are the trainer's own variables, those of rows begin anew.
    """
    manifest = checkpoint.read_manifest(folder)
    is_geo = manifest.job.get("mode") == Mode.GEO
    found: Values = {}
    for update in updates_of(program):
        rule = rule_of(update.op, program.global_block(), is_applied=not is_geo)
        native = _native.Rule(rule.name, dict(rule.args))
        slots = [
            slot for slot in definition(update.op.type).input_slots if slot not in NOT_KEPT and update.op.input(slot)
        ]
        kept = Kept("sum", _native.Rule("sum", {}), []) if is_geo else Kept(rule.name, native, slots)
        if update.name in manifest.tables:
            found |= _begin(update, native, slots, scope)
            _read_table(found, update, kept, manifest, folder)
        else:
            found |= _from_dense(update, kept, program, manifest, folder)
    return found


def _from_dense(
    update: ParameterUpdate, kept: Kept, program: Program, manifest: checkpoint.Manifest, folder: Path
) -> Values:
    shape = update.parameter.shape
    size = prod(shape)
    arrays, scalars = checkpoint.state_form(kept.native.state_width)
    wanted = checkpoint.BlockForm(update.name, 0, size, size, kept.rule, arrays, scalars)
    (data,) = checkpoint.load_dense(manifest, folder, [wanted])
    found: Values = {update.name: data.values.reshape(shape)}
    for slot, array in zip(kept.slots, data.arrays, strict=True):
        found[update.op.input(slot)[0]] = array.reshape(shape)
    if scalars:
        count = program.global_block().var(update.op.input(COUNT)[0])
        found[count.name] = np.full(count.shape, data.scalars[0], np.float32)
    return found


def _read_table(
    found: Values, update: ParameterUpdate, kept: Kept, manifest: checkpoint.Manifest, folder: Path
) -> None:
    width = update.parameter.shape[1]
    arrays, scalars = checkpoint.state_form(kept.native.state_width)
    for rows in rows_of(update.parameter, manifest, folder, kept.rule):
        keys = rows["keys"]
        found[update.name][keys] = rows["values"]
        columns = rows["state"][:, : arrays * width].reshape(len(keys), arrays, width)
        for number, slot in enumerate(kept.slots):
            found[update.op.input(slot)[0]][keys] = columns[:, number]
        if scalars:
            found[update.op.input(COUNT)[0]][keys] = rows["state"][:, arrays * width]


def _begin(update: ParameterUpdate, native: _native.Rule, slots: Sequence[str], scope: Scope) -> Values:
    """The values of rows that servers never had."""
    parameter = update.parameter
    found: Values = {parameter.name: first_values(parameter, scope)}
    state = native.start(1)
    for number, slot in enumerate(slots):
        found[update.op.input(slot)[0]] = np.full(parameter.shape, state[number], np.float32)
    if update.op.input(COUNT):
        found[update.op.input(COUNT)[0]] = np.zeros(parameter.shape[0], np.float32)
    return found
