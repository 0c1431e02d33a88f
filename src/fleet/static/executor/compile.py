"""A program becomes one flat Python function: a line for each operator, no interpreter in between.

    def step(S, F):
        x, y = F
        fc_0_w_0 = S['fc_0.w_0']
        fc_0_tmp_0 = k0(x, fc_0_w_0)                # mul
        ...
        return (mean_0_tmp_0,)

`S` are the tensors of a scope, `F` the feeds. Operators that nobody needs are left out, patterns of operators are
replaced by one (`fuse`), and in a program that `memory_optimize` has seen a value is let go where it was used last;
elsewhere all live until the function returns.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fleet.errors import UsageError
from fleet.static.block import Block
from fleet.static.executor.fuse import fuse
from fleet.static.executor.lowering import Lowering
from fleet.static.executor.options import BuildStrategy
from fleet.static.executor.replay import Replayed, compiled
from fleet.static.executor.scope import Scope
from fleet.static.names import GRAD
from fleet.static.operator import REMOTE, Operator
from fleet.static.registry import definition

MEMORY_NOTE = "memory_optimize"


@dataclass
class Step:
    """A compiled program."""

    function: Callable[[dict[str, torch.Tensor], Sequence[Any]], tuple[Any, ...]]
    source: str
    """The function as text, for people."""
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    reads: tuple[str, ...]
    """Persistable variables that must have a value."""
    ops: tuple[Operator, ...]


def compile_block(
    block: Block,
    feeds: Sequence[str],
    fetches: Sequence[str],
    device: torch.device,
    scope: Scope,
    build: BuildStrategy | None = None,
) -> Step:
    """Compile a block for some feeds and fetches."""
    is_handed_on = build is not None and (build.torch_compile or build.cuda_graph)
    for name in fetches:
        block.var(name)
    ops = needed(block, fetches)
    for attached in scope.attached.values():
        if (adopt := getattr(attached, "adopt", None)) is not None:
            ops = adopt(ops, block)
    _check_sources(block, ops, feeds, fetches)
    ops = fuse(ops, block, fetches, on_host=device.type == "cpu" and not is_handed_on)
    plan = block.program.notes.get(MEMORY_NOTE)
    if plan is None and build is not None and build.memory_optimize:
        plan = {"skip_grads": False}
    lowering = Lowering(block, device, scope)
    step = _emit(block, ops, tuple(feeds), tuple(fetches), lowering, plan, is_core=is_handed_on)
    if is_handed_on:
        assert build is not None
        core: Any = step.function
        if build.torch_compile:
            step.function = compiled(core, step.reads)
        else:
            step.function = Replayed(core, step.reads, lowering.generator)
    return step


def needed(block: Block, fetches: Sequence[str]) -> list[Operator]:
    """The operators that change something persistable, talk to others, or lead to a fetch."""
    wanted = set(fetches)
    kept: list[Operator] = []
    for op in reversed(block.ops):
        lasting = any(block.var(name).persistable for name in op.output_names)
        if lasting or op.role == REMOTE or definition(op.type).has_effect or wanted & set(op.output_names):
            kept.append(op)
            wanted |= set(op.input_names)
    return kept[::-1]


def _check_sources(block: Block, ops: Sequence[Operator], feeds: Sequence[str], fetches: Sequence[str]) -> None:
    have = set(feeds)
    for op in ops:
        for name in op.input_names:
            if name not in have and not block.var(name).persistable:
                raise _missing(block, name, op)
        have |= set(op.output_names)
    for name in fetches:
        if name not in have and not block.var(name).persistable:
            raise _missing(block, name, None)


def _missing(block: Block, name: str, op: Operator | None) -> UsageError:
    var = block.var(name)
    by = f"which {op.type} reads" if op is not None else "which is fetched"
    own = name.removesuffix("@LOD")
    if var.is_data:
        return UsageError(
            f"feed {own!r} is missing, {by}; give feed={{{own!r}: ...}} of shape {list(block.var(own).shape)}"
        )
    return UsageError(f"nothing in the program computes {name!r}, {by}; feed it, or fetch something else")


def _emit(
    block: Block,
    ops: Sequence[Operator],
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    lowering: Lowering,
    plan: dict[str, Any] | None,
    *,
    is_core: bool,
) -> Step:
    local = _Locals()
    written = set(feeds)
    reads: list[str] = []
    for op in ops:
        for name in op.input_names:
            if name not in written and name not in reads:
                reads.append(name)
        written |= set(op.output_names)
    for name in fetches:
        if name not in written and name not in reads:
            reads.append(name)
    if is_core:
        lines = [f"def step({', '.join(local[name] for name in (*reads, *feeds))}):"]
    else:
        lines = ["def step(S, F):"]
        if feeds:
            lines.append(f"    {', '.join(local[name] for name in feeds)}, = F")
        lines += [f"    {local[name]} = S[{name!r}]" for name in reads]
    globals_: dict[str, Any] = {}
    last = _last_uses(ops, block, fetches, plan) if plan is not None else {}
    for index, op in enumerate(ops):
        globals_[f"k{index}"] = lowering.kernel(op)
        in_place = set() if definition(op.type).rebinds else op.in_place
        results = [name for name in op.output_names if name not in in_place]
        call = f"k{index}({', '.join(local[name] for name in op.input_names)})"
        targets = ", ".join(local[name] for name in results)
        lines.append(f"    {targets + ' = ' if results else ''}{call}  # {op.type}")
        lasting = [name for name in results if block.var(name).persistable]
        if lasting and is_core:
            raise UsageError(
                f"{op.type} gives {lasting[0]!r} a new tensor; torch_compile and cuda_graph need programs that change "
                "persistable variables in place: leave them out for this one"
            )
        lines += [f"    S[{name!r}] = {local[name]}" for name in lasting]
        gone = [local[name] for name in last.get(index, ())]
        if gone:
            lines.append(f"    del {', '.join(gone)}")
    lines.append(f"    return ({''.join(local[name] + ', ' for name in fetches)})")
    source = "\n".join(lines) + "\n"
    exec(compile(source, f"<program {block.program.serial}>", "exec"), globals_)  # our own text
    return Step(globals_["step"], source, feeds, fetches, tuple(reads), tuple(ops))


def _last_uses(
    ops: Sequence[Operator], block: Block, fetches: Sequence[str], plan: dict[str, Any]
) -> dict[int, list[str]]:
    """After which operator each value is used no more."""
    kept = {*fetches, *plan.get("keep", ())}
    keeps_grads = plan.get("skip_grads", True)
    last: dict[str, int] = {}
    for index, op in enumerate(ops):
        for name in (*op.input_names, *op.output_names):
            last[name] = index
    after: dict[int, list[str]] = {}
    for name, index in last.items():
        var = block.var(name)
        if name not in kept and not var.persistable and not (keeps_grads and _is_parameters(block, name)):
            after.setdefault(index, []).append(name)
    return after


def _is_parameters(block: Block, name: str) -> bool:
    """Whether a variable is the gradient of a parameter."""
    own = name.removesuffix(GRAD)
    return own != name and block.has_var(own) and block.var(own).persistable


class _Locals:
    """Python names for variables, each its own."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = {"S", "F", "step"}

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            stem = re.sub(r"\W", "_", name.replace("@", "_"), flags=re.ASCII)
            if not stem or stem[0].isdigit() or keyword.iskeyword(stem) or re.fullmatch(r"k\d+", stem):
                stem = "v_" + stem
            unique, number = stem, 1
            while unique in self._taken:
                number += 1
                unique = f"{stem}__{number}"
            self._names[name] = unique
            self._taken.add(unique)
        return self._names[name]
