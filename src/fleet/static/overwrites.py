"""Values that were written over before their gradients could be found: refused, for they would be wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fleet.errors import UsageError
from fleet.static.infer import site_of
from fleet.static.operator import FORWARD, Operator
from fleet.static.registry import definition


class Writers:
    """Which operators of the forward pass write each variable: a gradient needs the values that were there then."""

    def __init__(self, ops: Sequence[Operator]) -> None:
        self._ops = ops
        self._of: dict[str, list[int]] = defaultdict(list)
        for index, op in enumerate(ops):
            if op.role == FORWARD:
                for name in set(op.output_names):
                    self._of[name].append(index)

    def check(self, index: int, reached: set[str]) -> None:
        """UsageError if an operator cannot be differentiated because what it wrote or read was written over."""
        op = self._ops[index]
        grad = definition(op.type).grad
        if grad is None:
            return
        for name in reached:
            if len(self._of[name]) > 1:
                raise self._error(name, self._of[name][1])
        for name in (name for slot in grad.needs for name in (*op.input(slot), *op.output(slot))):
            later = [other for other in self._of[name] if other > index]
            if later:
                raise self._error(name, later[0])

    def _error(self, name: str, index: int) -> UsageError:
        op = self._ops[index]
        return UsageError(
            f"{site_of(op)}{op.type} writes over {name!r}, whose value the gradient needs as it was before; give "
            f"{op.type} an output of its own"
        )
