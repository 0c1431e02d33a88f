"""`prefetch`: the lookups of tables become one request for all rows of a step, and one place where gradients go back.

    {Out=emb_0} = lookup_table(W=table, Ids=words)             {Out=[emb_0, emb_1]} = prefetch(Ids=[words, title])
    {Out=emb_1} = lookup_table(W=table, Ids=title)      ->     ...
    ...                                                        prefetch_grad(Ids=[words, title], Out@GRAD=[...])
    {W@GRAD=...} = lookup_table_grad(...), sum, adagrad

The request is as early as its ids are known: operators that compute ids move before it where that is safe. A lookup
whose ids depend on another lookup's rows is a request of its own, and so are lookups that are not trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fleet_programs.definition.operator import BACKWARD, FORWARD, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.edit import remove
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import LOOKUPS, is_update, updates_of
from fleet_programs.transpiler.planning.verify import verified


@verified
def prefetch(program: Program, plan: Plan) -> Program:
    """The program with the rows of the plan's tables on servers; their updates happen there."""
    other = program.clone()
    block = other.global_block()
    tables = set(plan.tables)
    lookups = [op for op in block.ops if op.type in LOOKUPS and op.input("W")[0] in tables]
    if not lookups:
        return other
    gradients = _gradients(other)
    for group in _groups(lookups, block, gradients):
        for request in _requests(group, block):
            _fetch(request, block)
            _give_back(request, block, gradients)
    remove(block, [*lookups, *_gradients_and_updates(block, tables)], keep=plan.rate_variables)
    return other


def _gradients(program: Program) -> dict[str, Operator]:
    """By the rows of a lookup: the operator that makes its gradient for the optimizer, not that of another loss."""
    block = program.global_block()
    used = {update.raw for update in updates_of(program)}
    for op in reversed(block.ops):
        if op.type == "sum" and used.intersection(op.output_names):
            used.update(op.input_names)
    return {
        op.input("Out@GRAD")[0].split(GRAD)[0]: op
        for op in block.ops
        if op.type.removesuffix("_grad") in LOOKUPS and used.intersection(op.output("W@GRAD"))
    }


def _groups(lookups: Sequence[Operator], block: Block, gradients: Mapping[str, Operator]) -> list[list[Operator]]:
    """Lookups that can be one request: none needs the rows of another, and all are trained or none is."""
    depth: dict[str, int] = {}
    groups: dict[tuple[int, bool], list[Operator]] = {}
    chosen = {id(op) for op in lookups}
    for op in block.ops:
        known = max((depth.get(name, 0) for name in op.input_names), default=0)
        if id(op) in chosen:
            ids = depth.get(op.input("Ids")[0], 0)
            groups.setdefault((ids, op.output("Out")[0] in gradients), []).append(op)
            known = ids + 1
        for name in op.output_names:
            depth[name] = max(known, depth.get(name, 0))
    return [groups[key] for key in sorted(groups)]


def _requests(group: Sequence[Operator], block: Block) -> list[list[Operator]]:
    """The whole group if all ids can be known before its first lookup; else those that are, and the others alone."""
    first = _index(group[0], block)
    late = [op for op in group if _ready(op.input("Ids"), block) > first]
    if not late or _move_before(first, [op.input("Ids")[0] for op in late], block):
        return [list(group)]
    early = [op for op in group if op not in late]
    return [request for request in (early, *([op] for op in late)) if request]


def _fetch(lookups: Sequence[Operator], block: Block) -> None:
    ids = [op.input("Ids")[0] for op in lookups]
    position = min(_ready(ids, block), _index(lookups[0], block))
    outs = [op.output("Out")[0] for op in lookups]
    request = block.insert_op(
        position, "prefetch", {"Ids": ids}, {"Out": outs}, lookup_attrs(lookups, block), role=FORWARD
    )
    request.scope, request.callsite, request.parts = lookups[0].scope, lookups[0].callsite, tuple(lookups)


def _give_back(lookups: Sequence[Operator], block: Block, gradients: Mapping[str, Operator]) -> None:
    """One operator takes the gradients of the rows, where the last of them is known."""
    found = [gradients[out] for op in lookups if (out := op.output("Out")[0]) in gradients]
    if not found:
        return
    assert len(found) == len(lookups)
    inputs = {
        "Ids": [op.input("Ids")[0] for op in lookups],
        "Out@GRAD": [op.input("Out@GRAD")[0] for op in found],
    }
    last = max(_index(op, block) for op in found)
    block.insert_op(last + 1, "prefetch_grad", inputs, {}, lookup_attrs(lookups, block), role=BACKWARD)


def lookup_attrs(lookups: Sequence[Operator], block: Block) -> dict[str, list[object]]:
    """The attributes of a request for these lookups; a height of 0 stands for a table of any ids."""
    tables = [op.input("W")[0] for op in lookups]
    return {
        "tables": list(tables),
        "widths": [block.var(name).shape[1] for name in tables],
        "heights": [0 if op.attr("is_distributed") else block.var(op.input("W")[0]).shape[0] for op in lookups],
        "padding_idx": [op.attr("padding_idx") for op in lookups],
        "drops_last": [op.type == "lookup_table" for op in lookups],
    }


def _index(op: Operator, block: Block) -> int:
    return next(index for index, one in enumerate(block.ops) if one is op)


def _ready(names: Sequence[str], block: Block) -> int:
    """The first position at which variables have their last values."""
    return 1 + max((index for index, op in enumerate(block.ops) if set(names) & set(op.output_names)), default=-1)


def _move_before(first: int, ids: Sequence[str], block: Block) -> bool:
    """Move what computes ids before position `first`; False, and nothing moves, where that is not safe."""
    needed = set(ids)
    moved: list[Operator] = []
    for op in reversed(block.ops[first:]):
        if needed & set(op.output_names):
            moved.insert(0, op)
            needed |= set(op.input_names)
    writes = Counter(name for op in block.ops for name in op.output_names)
    if not all(_is_movable(op, writes) for op in moved):
        return False
    block.ops[first:] = [*moved, *(op for op in block.ops[first:] if op not in moved)]
    return True


def _is_movable(op: Operator, writes: Counter[str]) -> bool:
    """Whether an operator does the same wherever its inputs are there: nothing it touches is written twice."""
    known = definition(op.type)
    touched = (*op.input_names, *op.output_names)
    return not (known.has_effect or known.is_random or op.in_place) and all(writes[name] <= 1 for name in touched)


def _gradients_and_updates(block: Block, tables: set[str]) -> list[Operator]:
    """Everything that computes the gradients of tables, and what they were for."""
    found = []
    for op in block.ops:
        outputs = op.output_names
        if is_update(op):
            is_ours = op.input("Param")[0] in tables
        else:
            is_ours = bool(outputs) and all(name.split("@GRAD")[0] in tables and "@GRAD" in name for name in outputs)
        if is_ours:
            found.append(op)
    return found
