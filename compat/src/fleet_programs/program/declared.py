"""Whether an operator makes what its block declares: for programs that were read, or changed by a pass."""

from __future__ import annotations

from fleet.errors import UsageError
from fleet_programs.definition.infer import Infer, may_equal, site_of
from fleet_programs.definition.kinds import ARRAY, TENSOR, Shape
from fleet_programs.definition.operator import ROLES, Operator
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import check_in_place, find_shapes
from fleet_programs.program.variable import Variable


def check_declared(op: Operator, block: Block) -> None:
    """UsageError unless an operator's variables exist, and its outputs are declared as what it makes."""
    if op.role not in ROLES:
        raise UsageError(f"{site_of(op)}role of {op.type} must be one of {', '.join(ROLES)}, got {op.role!r}")
    for name in (*op.input_names, *op.output_names):
        if not block.has_var(name):
            raise UsageError(f"{site_of(op)}{op.type}: the program has no variable {name!r}")
    check_in_place(op)
    declared = _Declared(op, block)
    find_shapes(declared)
    declared.compare()


class _Declared(Infer):
    """Compares what an operator makes with what is said of its outputs, and changes nothing."""

    def __init__(self, op: Operator, block: Block) -> None:
        super().__init__(op, block)
        self._made: dict[str, tuple[Shape, str, str, str | None]] = {}

    def _give(self, var: Variable, shape: Shape, dtype: str | None, kind: str | None, lod: str | None) -> None:
        if var.persistable and var.shape:  # it keeps what it is, if the shape fits
            kind, lod = None, None
        if var.block is not self.block and var.lod is not None:  # nor does a block change its offsets
            lod = None
        before = self._made.get(var.name, _nature(var))
        self._made[var.name] = (shape, dtype or before[1], kind or before[2], lod or before[3])

    def compare(self) -> None:
        """UsageError that names the first output that is another."""
        for name, made in self._made.items():
            stated = _nature(self.block.var(name))
            if made[2:] == stated[2:] and made[2] == ARRAY and not made[0]:
                continue  # what is written to an array later says what it holds
            # A loop may give a ragged variable other offsets than those that it is made with.
            is_other = stated[1:3] != made[1:3] or (stated[3] is None) != (made[3] is None)
            if not may_equal(stated[0], made[0]) or is_other:
                raise self.fail(f"{name!r} is declared as {_described(*stated)}, and would be {_described(*made)}")


def _nature(var: Variable) -> tuple[Shape, str, str, str | None]:
    return var.shape, var.dtype, var.kind, var.lod


def _described(shape: Shape, dtype: str, kind: str, lod: str | None) -> str:
    more = ("" if kind == TENSOR else f" kind={kind}") + ("" if lod is None else f" lod={lod}")
    return f"{dtype}{list(shape)}{more}"
