"""Layers that 1.8 has under `fluid.layers` and 2.0 as functions, with 1.8's arguments; of tensors and of variables.

What is given neither, such as the shape of `full`, is a tensor after `guard()` or `enable_dygraph()`. `out` and
`output` are assigned to. `device` must be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

from fleet.errors import NotSupportedError
from fleet_paddle import imperative as two
from fleet_paddle import mode
from fleet_paddle.fluid import layers
from fleet_paddle.imperative.nn import functional
from fleet_programs.expressions.spelling import Spelling

_MADE = "out=None, dtype=None, device=None, stop_gradient=True, name=None"

ROWS: dict[str, tuple[str, Callable[..., Any]]] = {
    "addcmul": (
        "input, tensor1, tensor2, value=1.0, out=None, name=None",
        lambda input, tensor1, tensor2, value: input + tensor1 * tensor2 * value,
    ),
    "allclose": ("input, other, rtol=1e-05, atol=1e-08, equal_nan=False, name=None", two.allclose),
    "clamp": ("input, min=None, max=None, output=None, name=None", two.clip),
    "cross": ("input, other, dim=None", lambda x, y, dim: two.cross(x, y) if dim is None else two.cross(x, y, dim)),
    "diag_embed": ("input, offset=0, dim1=-2, dim2=-1", functional.diag_embed),
    "dist": ("x, y, p=2", two.dist),
    "dot": ("x, y, name=None", two.dot),
    "elementwise_equal": ("x, y, name=None", two.equal),
    "flip": ("input, dims, name=None", two.flip),
    "full": (f"shape, fill_value, {_MADE}", two.full),
    "full_like": (f"input, fill_value, {_MADE}", two.full_like),
    "index_sample": ("x, index", two.index_sample),
    "index_select": ("input, index, dim=0", two.index_select),
    "kron": ("x, y, out=None, name=None", two.kron),
    "log1p": ("x, out=None, name=None", two.log1p),
    "logsumexp": ("x, dim=None, keepdim=False, out=None, name=None", two.logsumexp),
    "meshgrid": ("input, name=None", two.meshgrid),
    "nonzero": ("input, as_tuple=False", two.nonzero),
    "randn": (f"shape, {_MADE}", two.randn),
    "randperm": ("n, out=None, dtype='int64', device=None, stop_gradient=True, seed=0", two.randperm),
    "roll": ("input, shifts, dims=None", two.roll),
    "trace": ("input, offset=0, dim1=0, dim2=1, out=None, name=None", two.trace),
    "tril": ("input, diagonal=0, name=None", two.tril),
}
"""Name -> its arguments, and 2.0's function of those that are not among `_APART`, in their order."""

_APART = ("out", "output", "device", "stop_gradient", "seed", "name")


def _in_mode() -> AbstractContextManager[None]:
    return mode.on_tensors() if mode.is_dynamic() else mode.in_programs()


def _made(name: str, arguments: str, function: Callable[..., Any]) -> Callable[..., Any]:
    spelled = Spelling.parse(f"{name}({arguments})")

    def call(given: dict[str, Any]) -> Any:
        apart = {one: given.pop(one) for one in _APART if one in given}
        if apart.get("device") is not None:
            raise NotSupportedError(f"{name}: device must be left out; the Executor's place, or set_device, says where")
        if apart.get("seed", 0):
            raise NotSupportedError(
                f"{name}: seed must be left out; set the program's random_seed, or call paddle.seed"
            )
        with _in_mode():
            value = function(*given.values())
            out = apart.get("out") if "out" in apart else apart.get("output")
            if out is not None:
                value = layers.assign(value, out)
        if "stop_gradient" in apart:
            value.stop_gradient = apart["stop_gradient"]
        return value

    made = spelled.function("return call(locals())", {"call": call}, f"`paddle.{function.__name__}`.", __name__)
    return wraps(made)(made)


FUNCTIONS = {name: _made(name, *row) for name, row in ROWS.items()}
globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)
