"""What layers and the signs between variables do alike: find a name, make variables for outputs, append operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.expressions import names
from fleet_programs.expressions.callsite import prefix

if TYPE_CHECKING:
    from fleet_programs.definition.operator import Operator
    from fleet_programs.program.block import Block
    from fleet_programs.program.variable import Variable


class Appender:
    """One call of a layer, or one sign. `kind` is the stem of its name: `fc` gives `fc_0`, and outputs `fc_0.tmp_0`."""

    def __init__(self, kind: str, block: Block, name: str | None = None) -> None:
        if not isinstance(name, str | None):
            raise UsageTypeError(f"{prefix()}{kind}: name must be a text, got {type(name).__name__}")
        self.kind = kind
        self.block = block
        self.name = name or names.generate(kind, self._is_taken)

    def temporary(self, dtype: str = "float32", stop_gradient: bool = False) -> Variable:
        """A new variable for an output; its shape is found when the operator is added."""
        name = names.generate(f"{self.name}.tmp", self.block.has_var)
        return self.block.create_var(name, dtype=dtype, stop_gradient=stop_gradient)

    def _is_taken(self, name: str) -> bool:
        """Whether the program has a layer of this name, which was not counted here: it was read from a file."""
        return any(self.block.has_var(f"{name}.{part}_0") for part in ("tmp", "w", "b"))

    def op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Add an operator."""
        return self.block.append_op(type, inputs, outputs, attrs)

    def apply(
        self, type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] | None = None, dtype: str = "float32"
    ) -> Variable:
        """Add an operator with one output `Out`; returns that."""
        out = self.temporary(dtype)
        self.op(type, inputs, {"Out": out}, attrs)
        return out

    def apply_with_shape(
        self, type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], dtype: str, *, is_needed: bool
    ) -> Variable:
        """`apply` of an op that keeps the shape of its input for the gradient, if that cannot be found otherwise."""
        out = self.temporary(dtype)
        outputs = {"Out": out}
        if is_needed:
            outputs["XShape"] = self.temporary("int64", stop_gradient=True)
        self.op(type, inputs, outputs, attrs)
        return out

    def error(self, message: str) -> UsageError:
        """An error that begins with the line of the user's script."""
        return UsageError(f"{prefix()}{self.kind}: {message}")

    def not_a_variable(self, value: object, what: str = "input") -> UsageTypeError:
        """The error about an argument that should have been a Variable."""
        return UsageTypeError(
            f"{prefix()}{self.kind}: {what} must be a Variable, got {type(value).__name__}; "
            "make one with static.data() or layers.assign()"
        )
