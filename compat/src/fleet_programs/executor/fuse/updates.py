"""Updates of many parameters that differ in nothing but the parameter become one call for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.executor.fuse.ops import Ops

FUSED = {"sgd": "fused_sgd", "momentum": "fused_momentum", "adam": "fused_adam", "adamw": "fused_adamw"}


def fuse_updates(ops: Ops) -> list[Operator]:
    """sgd, momentum, adam or adamw of one learning rate and equal attributes -> fused_sgd, ..."""
    gone: list[Operator] = []
    made: dict[int, Operator] = {}
    for run in _runs(ops):
        groups: dict[tuple[str, ...], list[Operator]] = {}
        for op in run:
            if op.type in FUSED and _is_whole(ops, op):
                groups.setdefault(_kind(ops, op), []).append(op)
        for group in groups.values():
            if len(group) > 1:
                gone += group
                made[id(group[-1])] = _joined(group)
    return ops.replaced(gone, made)


def _runs(ops: Ops) -> Iterator[list[Operator]]:
    """Stretches of updates none of which reads or writes what another of them writes: their order does not matter."""
    run: list[Operator] = []
    read: set[str] = set()
    written: set[str] = set()
    for op in ops:
        is_update = bool(op.output("ParamOut"))
        inputs, outputs = set(op.input_names), set(op.output_names)
        if not is_update or inputs & written or outputs & (read | written):
            yield run
            run, read, written = [], set(), set()
        if is_update:
            run.append(op)
            read |= inputs
            written |= outputs
    yield run


def _is_whole(ops: Ops, op: Operator) -> bool:
    """Whether a gradient has all rows, and their updates one count."""
    counts = op.input("Step")
    return ops.var(op.input("Grad")[0]).kind != ROWS and (not counts or ops.var(counts[0]).shape == (1,))


def _kind(ops: Ops, op: Operator) -> tuple[str, ...]:
    """What updates of one group have in common."""
    attrs = json.dumps(op.attrs, sort_keys=True)
    return op.type, attrs, ops.var(op.input("Param")[0]).dtype, *op.input("LearningRate")


def _joined(group: list[Operator]) -> Operator:
    first, last = group[0], group[-1]
    inputs = {slot: [op.input(slot)[0] for op in group] for slot in first.inputs}
    inputs["LearningRate"] = first.input("LearningRate")
    outputs = {slot: [op.output(slot)[0] for op in group] for slot in first.outputs}
    return Operator(FUSED[first.type], inputs, outputs, first.attrs, role=last.role, callsite=last.callsite)
