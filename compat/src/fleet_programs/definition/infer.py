"""What an op's `infer` function works with: it finds the shapes and dtypes of outputs while a program is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import DTYPES
from fleet_programs.definition.kinds import ARRAY

if TYPE_CHECKING:
    from fleet_programs.definition.kinds import Shape
    from fleet_programs.definition.operator import Operator
    from fleet_programs.program.block import Block
    from fleet_programs.program.variable import Variable


def site_of(op: Operator) -> str:
    """How an error about an operator begins: the line of the user's script, if it is known."""
    return f"{op.callsite}: " if op.callsite else ""


class Infer:
    """One operator on its way into a block: shapes and dtypes in, shapes and dtypes out."""

    def __init__(self, op: Operator, block: Block) -> None:
        self.op = op
        self.block = block

    def attr(self, name: str) -> Any:
        """An attribute of the operator, or its default."""
        return self.op.attr(name)

    def has(self, slot: str) -> bool:
        """Whether an optional slot is there."""
        return bool(self.op.inputs.get(slot) or self.op.outputs.get(slot))

    def var(self, slot: str, index: int = 0) -> Variable:
        """A variable of an input slot."""
        return self.block.var(self.op.inputs[slot][index])

    def vars(self, slot: str) -> list[Variable]:
        """The variables of an input slot; none if it was left out."""
        return [self.block.var(name) for name in self.op.input(slot)]

    def shape(self, slot: str, index: int = 0) -> Shape:
        """The shape of a variable of an input slot; -1 is a size that a batch decides."""
        return self.var(slot, index).shape

    def dtype(self, slot: str, index: int = 0) -> str:
        """The type of a variable's values in an input slot."""
        return self.var(slot, index).dtype

    def set(
        self,
        slot: str,
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        index: int = 0,
        lod: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Give an output its shape, and its dtype unless it is to keep what it has.

        What lasts keeps its shape and dtype once it has them: an operator that would change them is an error.
        """
        names = self.op.outputs.get(slot)
        if not names or names[index] in self.op.in_place:
            return
        if dtype is not None and dtype not in DTYPES:
            raise self.fail(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        sizes = tuple(int(size) for size in shape)
        if any(size < -1 for size in sizes):
            raise self.fail(f"{names[index]!r} would have shape {list(sizes)}; sizes must be above 0, or -1 for any")
        self._give(self.block.var(names[index]), sizes, dtype, kind, lod)

    def _give(self, var: Variable, shape: Shape, dtype: str | None, kind: str | None, lod: str | None) -> None:
        if var.persistable and var.shape:
            if not may_equal(var.shape, shape) or dtype not in (None, var.dtype):
                raise self.fail(
                    f"{var.name!r} is {var.dtype} of shape {list(var.shape)} and lasts, so it cannot become "
                    f"{dtype or var.dtype} of shape {list(shape)}; write to another variable"
                )
            return
        if var.shape and var.block is not self.block:
            shape = self._joined(var, shape, dtype)
        var.shape, var.dtype = shape, dtype or var.dtype
        var.kind = kind or var.kind
        if var.lod is None or var.block is self.block:  # a variable from around a block keeps the offsets that it has
            var.lod = lod or var.lod

    def _joined(self, var: Variable, shape: Shape, dtype: str | None) -> Shape:
        """The shape of a variable from around a block that the block writes: sizes that differ are left open."""
        if dtype not in (None, var.dtype) or len(shape) != len(var.shape):
            raise self.fail(
                f"{var.name!r} is {var.dtype} of shape {list(var.shape)} where the block begins, and cannot become "
                f"{dtype or var.dtype} of shape {list(shape)} inside; cast or reshape what is written to it"
            )
        return tuple(a if a == b else -1 for a, b in zip(var.shape, shape, strict=True))

    def like(self, slot: str, other: str) -> None:
        """An output is shaped as an input, ragged as it is."""
        source = self.var(other)
        self.set(slot, source.shape, source.dtype, lod=source.lod)

    def fail(self, message: str) -> UsageError:
        """An error that begins with the line of the user's script: `raise infer.fail(...)`."""
        return UsageError(f"{site_of(self.op)}{self.op.type}: {message}")

    def require_dtype(self, slot: str, allowed: frozenset[str]) -> None:
        """Fail unless the variables of a slot have one of some dtypes."""
        for var in self.vars(slot):
            if var.dtype not in allowed:
                raise self.fail(f"{slot} {var.name!r} must be {' or '.join(sorted(allowed))}, got {var.dtype}")

    def require_rank(self, slot: str, rank: int) -> None:
        """Fail unless a variable has so many dimensions."""
        var = self.var(slot)
        if len(var.shape) != rank:
            raise self.fail(f"{slot} {var.name!r} must have {rank} dimensions, got shape {list(var.shape)}")


def may_equal(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two shapes can turn out to be the same; -1 is any size."""
    return len(first) == len(second) and all(a == b or -1 in (a, b) for a, b in zip(first, second, strict=True))


def same_as(slot: str, out: str = "Out") -> Callable[[Infer], None]:
    """An `infer` for ops whose output is shaped as an input."""

    def infer(infer: Infer) -> None:
        infer.like(out, slot)

    return infer


def as_variables(infer: Infer) -> None:
    """An `infer` for gradients: each is shaped as its variable, whose name it carries."""
    for slot, names in infer.op.outputs.items():
        for index, name in enumerate(names):
            own = name.split("@GRAD")[0]
            if infer.block.has_var(own):
                source = infer.block.var(own)
                kind = ARRAY if source.kind == ARRAY else None
                infer.set(slot, source.shape, source.dtype, index=index, lod=source.lod, kind=kind)
