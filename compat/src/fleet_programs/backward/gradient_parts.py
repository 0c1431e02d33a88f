"""The gradients found so far of each variable: parts, which are added where the whole is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleet_programs.definition.operator import Operator
from fleet_programs.expressions.names import grad_name
from fleet_programs.program.block import Block

Callbacks = Sequence[Callable[..., Any]]


class Parts:
    """Names of gradients, which operators at the end of `block` write.

    A variable that is written over has another gradient before that than after it: `finish` ends the later one.
    """

    def __init__(self, block: Block, callbacks: Callbacks = ()) -> None:
        self.block = block
        self._callbacks = callbacks
        self._taken = set(block.vars)
        self._names: dict[str, list[str]] = {}
        self._finished: dict[str, str] = {}

    def name_of(self, name: str) -> str:
        """The name of a variable's gradient: another than those that it has of an earlier loss, or written over."""
        whole, count = grad_name(name), 0
        while whole in self._taken:
            count += 1
            whole = f"{grad_name(name)}@{count}"
        return whole

    def new(self, name: str) -> str:
        """A name for one more part of a variable's gradient."""
        parts = self._names.setdefault(name, [])
        parts.append(f"{self.name_of(name)}@RENAME@{len(parts)}" if parts else self.name_of(name))
        return parts[-1]

    def begin(self, name: str, part: str) -> None:
        """A part that is there already."""
        self._names.setdefault(name, []).append(part)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def total(self, name: str) -> str:
        """The gradient of a variable; its parts are added the first time this is asked for."""
        parts = self._names[name]
        if len(parts) == 1:
            return parts[0]
        total = self.name_of(name)
        if parts[0] == total:  # the first part was written under the name that the sum will have
            parts[0] = f"{total}@RENAME@0"
            _rename_output(self.block, total, parts[0])
        self.append("sum", {"X": list(parts)}, {"Out": total}, {})
        self._names[name] = [total]
        return total

    def total_or_zeros(self, name: str) -> str:
        """The gradient of a variable; zeros if it has none."""
        if name in self:
            return self.total(name)
        zeros = self.name_of(name)
        self.append("fill_zeros_like", {"X": name}, {"Out": zeros}, {})
        return zeros

    def finish(self, name: str) -> None:
        """What comes before, in the program, gave the variable another value: its gradient begins anew."""
        total = self.total(name)
        self._finished.setdefault(name, total)
        self._taken.add(total)
        del self._names[name]

    def totals(self) -> dict[str, str]:
        """The gradient of each variable; of one that is written over, that of its last value.

        What has its first value from outside, as feeds and parameters do, has the gradient of that.
        """
        found = {name: self.total(name) for name in list(self._names)}
        for name, total in self._finished.items():
            var = self.block.var(name)
            if name not in found or not (var.is_data or var.persistable):
                found[name] = total
        return found

    def append(self, type: str, inputs: Any, outputs: Any, attrs: Any) -> Operator:
        """Add an operator."""
        for names in outputs.values():
            for name in [names] if isinstance(names, str) else names:
                if name not in self.block.vars:  # a block around may have one of that name, which is another's
                    self.block.create_var(name)
        op = self.block.append_op(type, inputs, outputs, attrs)
        for callback in self._callbacks:
            callback(self.block, {})
        return op


def _rename_output(block: Block, before: str, after: str) -> None:
    """The operator that wrote a gradient under its final name writes a part of it instead."""
    for op in block.ops:
        if before in op.output_names:
            op.outputs = {
                slot: [after if name == before else name for name in names] for slot, names in op.outputs.items()
            }
    var = block.vars[before]
    block.create_var(after, var.shape, var.dtype, kind=var.kind, lod=var.lod)
