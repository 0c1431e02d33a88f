"""Values that are written over before their gradients are found: copies are kept of those that gradients read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fleet_programs.definition.operator import BACKWARD, FORWARD, Operator
from fleet_programs.program.block import Block

KEPT = "@KEPT@"


class Writers:
    """Which operators of the forward pass write each variable: a gradient needs the values that were there then."""

    def __init__(self, block: Block, ops: Sequence[Operator]) -> None:
        self._block, self._ops = block, ops
        self._of: dict[str, list[int]] = defaultdict(list)
        self._kept: dict[tuple[str, int], str] = {}
        for index, op in enumerate(ops):
            if op.role == FORWARD:
                for name in set(op.output_names):
                    self._of[name].append(index)

    def has_earlier(self, index: int, name: str) -> bool:
        """Whether a variable that an operator writes had another value before it, maybe from around the block."""
        if name not in self._block.vars:
            return True
        return name in self._ops[index].input_names or any(other < index for other in self._of[name])

    def as_of(self, index: int, name: str, *, before: bool) -> str:
        """The variable that has, in the end, the value that `name` had when an operator ran: `before` it, or after.

        That is the variable itself, or a copy that is made before it is written over.
        """
        later = next((other for other in self._of[name] if other > index or (before and other == index)), None)
        if later is None:
            return name
        key = (name, later)
        if key not in self._kept:
            var = self._block.var(name)
            count = 0
            while self._block.has_var(kept := f"{name}{KEPT}{count}"):
                count += 1
            self._block.create_var(kept, var.shape, var.dtype, kind=var.kind, lod=var.lod)
            place = next(place for place, op in enumerate(self._block.ops) if op is self._ops[later])
            self._block.insert_op(place, "assign", {"X": name}, {"Out": kept}, {}, role=BACKWARD)
            self._kept[key] = kept
        return self._kept[key]
