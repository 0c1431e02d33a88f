"""Functions of tensors that variables of a program do not have, and what does the same there."""

from __future__ import annotations

from fleet.errors import NotSupportedError

_CLOSEST = {
    "dropout2d": "dropout()",
    "dropout3d": "dropout()",
    "grad": "paddle.static.gradients(targets, inputs)",
    "interpolate": "fluid.layers.image_resize()",
    "local_response_norm": "fluid.layers.lrn()",
    "multinomial": "fluid.layers.sampling_id() draws one class for each row",
    "npair_loss": "paddle.matmul() and softmax_with_cross_entropy()",
    "unique": "fluid.layers.unique(), whose values are in the order in which they come first",
    "upsample": "fluid.layers.image_resize()",
}


def not_built(name: str) -> NotSupportedError:
    """The error for a function that takes tensors only; it says what to do instead."""
    otherwise = _CLOSEST.get(
        name, "compose it of functions that docs/static.md lists, or add an operator: fleet.static.registry.register"
    )
    return NotSupportedError(f"{name} takes tensors, and is not built for variables of a program: {otherwise}")
