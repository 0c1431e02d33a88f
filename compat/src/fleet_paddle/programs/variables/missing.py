"""Functions of tensors that variables of a program do not have, and what does the same there."""

from __future__ import annotations

from fleet.errors import NotSupportedError

_REASONS = {
    "grad": "use paddle.static.gradients(targets, inputs)",
}


def not_built(name: str) -> NotSupportedError:
    """The error for a function that takes tensors only; it says what to do instead."""
    otherwise = _REASONS.get(
        name,
        "compose it of functions that docs/static.md lists, or add an operator: "
        "fleet_programs.definition.registry.register",
    )
    return NotSupportedError(f"{name} takes tensors, and is not built for variables of a program: {otherwise}")
