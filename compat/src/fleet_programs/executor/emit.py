"""Operators become one flat Python function: a line for each, no interpreter in between.

    def step(S, F):
        x, y = F
        fc_0_w_0 = S['fc_0.w_0']
        fc_0_tmp_0 = k0(x, fc_0_w_0)                # mul
        ...
        return (mean_0_tmp_0,)

`S` are the tensors of a scope, `F` the feeds.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch

from fleet.errors import UsageError
from fleet_programs.definition.operator import BACKWARD, FORWARD, Operator
from fleet_programs.definition.registry import Kernel, definition
from fleet_programs.expressions.names import GRAD

if TYPE_CHECKING:
    from fleet_programs.kernel.lowering import Lowering
    from fleet_programs.program.block import Block

INDENT = "    "
STORED, REFUSED, RETURNED = "stored", "refused", "returned"
"""What becomes of a new tensor for a variable that lasts."""

_KERNEL = re.compile(r"^ +(?:.* = )?k(\d+)\(")


@dataclass
class Step:
    """A compiled program."""

    function: Callable[..., tuple[Any, ...]]
    """(tensors of a scope, feeds) -> fetches"""
    source: str
    """The function as text, for people."""
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    reads: tuple[str, ...]
    """Persistable variables that must have a value."""
    ops: tuple[Operator, ...]
    lines: dict[int, Operator]
    """The operator of each line of the function."""
    kernels: tuple[Kernel, ...]
    """What carries out each of `ops`."""
    bodies: tuple[Step, ...] = ()
    """The blocks that its operators run, each compiled once."""


class Emitter:
    """Writes the text of one program. `last` names the values to let go after each operator."""

    def __init__(
        self, lowering: Lowering, feeds: Sequence[str], fetches: Sequence[str], last: Mapping[int, Sequence[str]]
    ) -> None:
        self._lowering = lowering
        self._block = lowering.block
        self._feeds, self._fetches = tuple(feeds), tuple(fetches)
        self._last = last
        self._local = _Locals()
        self._globals: dict[str, Any] = {}
        self._kernels: list[Kernel] = []

    def step(self, ops: Sequence[Operator], *, with_regions: bool) -> Step:
        """The program as a function of a scope and feeds; `with_regions`: torch.compile gets forward and backward."""
        reads = self._reads(ops)
        lines = ["def step(S, F):"]
        if self._feeds:
            lines.append(f"{INDENT}{self._names(self._feeds)}, = F")
        lines += [f"{INDENT}{self._local[name]} = S[{name!r}]" for name in reads]
        num_regions = 0
        for indexes, is_region in _runs(ops) if with_regions else [(range(len(ops)), False)]:
            if is_region:
                name = f"region{num_regions}"
                num_regions += 1
                self._region(name, ops, indexes)
                lines.append(f"{INDENT}{self._call(name, ops, indexes)}")
            else:
                lines += self._lines(ops, indexes, lasting=STORED)
        lines.append(f"{INDENT}return ({''.join(self._local[name] + ', ' for name in self._fetches)})")
        return self._made("step", lines, reads, ops)

    def function_of_tensors(self, ops: Sequence[Operator]) -> Step:
        """The program as a function of tensors alone, persistable ones first: for a CUDA graph."""
        reads = self._reads(ops)
        lines = [
            f"def step({self._names([*reads, *self._feeds])}):",
            *self._lines(ops, range(len(ops)), lasting=REFUSED),
        ]
        lines.append(f"{INDENT}return ({''.join(self._local[name] + ', ' for name in self._fetches)})")
        return self._made("step", lines, reads, ops)

    def body(self, ops: Sequence[Operator]) -> Step:
        """A block as a function of what it takes from around it; whoever runs the block stores what lasts."""
        lines = [f"def body({self._names(self._feeds)}):", *self._lines(ops, range(len(ops)), lasting=RETURNED)]
        lines.append(f"{INDENT}return ({''.join(self._local[name] + ', ' for name in self._fetches)})")
        return self._made("body", lines, (), ops)

    def _made(self, name: str, lines: Sequence[str], reads: Sequence[str], ops: Sequence[Operator]) -> Step:
        source = "\n".join(lines) + "\n"
        by_line = {n: ops[int(found[1])] for n, line in enumerate(lines, 1) if (found := _KERNEL.search(line))}
        where = f"<program {self._block.program.serial}{f' block {self._block.index}' if self._block.index else ''}>"
        exec(compile(source, where, "exec"), self._globals)  # our own text
        kernels, bodies = tuple(self._kernels), tuple(self._lowering.bodies)
        made = self._globals[name]
        return Step(made, source, self._feeds, self._fetches, tuple(reads), tuple(ops), by_line, kernels, bodies)

    def _lines(self, ops: Sequence[Operator], indexes: Sequence[int], *, lasting: str) -> Iterator[str]:
        for index in indexes:
            op = ops[index]
            kernel = self._globals[f"k{index}"] = self._lowering.kernel(op)
            self._kernels.append(kernel)
            results = _results(op)
            # A temporary may share memory with what was fed, or with another value.
            for name in sorted(set(op.output_names) - set(results)):
                if not self._block.var(name).persistable:
                    yield f"{INDENT}{self._local[name]} = {self._local[name]}.clone()"
            targets = self._names(results) + " = " if results else ""
            yield f"{INDENT}{targets}k{index}({self._names(op.input_names)})  # {op.type}"
            stored = [name for name in results if self._block.var(name).persistable]
            if stored and lasting == REFUSED:
                raise UsageError(
                    f"{op.type} gives {stored[0]!r} a new tensor; cuda_graph and torch_compile need programs that "
                    "change persistable variables in place: leave them out for this one"
                )
            for name in stored if lasting == STORED else ():
                # Its kernel may have made a view of a feed.
                own = ".clone()" if self._feeds and not op.in_place and set(op.input_names) & set(self._feeds) else ""
                yield f"{INDENT}S[{name!r}] = {self._local[name]}{own}"
            gone = self._last.get(index, ())
            if gone:
                yield f"{INDENT}del {self._names(gone)}"

    def _region(self, name: str, ops: Sequence[Operator], indexes: Sequence[int]) -> None:
        """A function of some operators, for torch.compile."""
        given, wanted = self._ends(ops, indexes)
        lines = [f"def {name}({self._names(given)}):", *self._lines(ops, indexes, lasting=REFUSED)]
        lines.append(f"{INDENT}return {self._names(wanted) or None}")
        self._made(name, lines, (), ops)
        self._globals[name] = torch.compile(self._globals[name])

    def _call(self, region: str, ops: Sequence[Operator], indexes: Sequence[int]) -> str:
        given, wanted = self._ends(ops, indexes)
        targets = self._names(wanted) + " = " if wanted else ""
        return f"{targets}{region}({self._names(given)})  # {len(indexes)} operators"

    def _ends(self, ops: Sequence[Operator], indexes: Sequence[int]) -> tuple[list[str], list[str]]:
        """What some operators read from others, and what others need of what they write."""
        inside = [ops[index] for index in indexes]
        written: set[str] = set()
        given: dict[str, None] = {}
        for op in inside:
            given.update(dict.fromkeys(name for name in op.input_names if name not in written))
            written |= set(_results(op))
        later = {name for op in ops[indexes[-1] + 1 :] for name in op.input_names} | set(self._fetches)
        return list(given), [name for name in dict.fromkeys(n for op in inside for n in _results(op)) if name in later]

    def _reads(self, ops: Sequence[Operator]) -> list[str]:
        written = set(self._feeds)
        reads: dict[str, None] = {}
        for op in ops:
            reads.update(dict.fromkeys(name for name in op.input_names if name not in written))
            written |= set(op.output_names)
        reads.update(dict.fromkeys(name for name in self._fetches if name not in written))
        return list(reads)

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(self._local[name] for name in names)


def _results(op: Operator) -> list[str]:
    """What a kernel returns: outputs that it does not change in place."""
    in_place = set() if definition(op.type).rebinds else op.in_place
    return [name for name in op.output_names if name not in in_place]


def _runs(ops: Sequence[Operator]) -> Iterator[tuple[Sequence[int], bool]]:
    """Stretches of operators, and whether torch.compile can take them: pure forward and backward, two or more."""

    def is_pure(index: int) -> bool:
        op = ops[index]
        known = definition(op.type)
        return op.role in (FORWARD, BACKWARD) and not (known.has_effect or known.is_random or known.blocks)

    for pure, indexes in groupby(range(len(ops)), is_pure):
        several = list(indexes)
        yield several, pure and len(several) > 1


def last_uses(
    ops: Sequence[Operator], block: Block, fetches: Sequence[str], plan: Mapping[str, Any]
) -> dict[int, list[str]]:
    """After which operator each value is used no more; `plan` is the note of memory_optimize."""
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
        self._taken: set[str] = {"S", "F", "step", "body", "__debug__"}

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            stem = re.sub(r"\W", "_", name.replace("@", "_"), flags=re.ASCII)
            if not stem or stem[0].isdigit() or keyword.iskeyword(stem) or re.fullmatch(r"(k|region)\d+", stem):
                stem = "v_" + stem
            unique, number = stem, 1
            while unique in self._taken:
                number += 1
                unique = f"{stem}__{number}"
            self._names[name] = unique
            self._taken.add(unique)
        return self._names[name]
