"""Every name of `fleet_programs.layers` and of `programs.layers`; functions take tensors as well.

Given a variable, a layer adds operators to its program; given a tensor, it computes (`traced`). What is given neither,
such as the shape of `zeros`, is a tensor after `guard()` or `enable_dygraph()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.fluid import making, shortcuts
from fleet_paddle.fluid.traced import Traced
from fleet_paddle.past import with_past
from fleet_paddle.programs import layers as more
from fleet_paddle.programs.networks import composed, nets
from fleet_paddle.programs.variables import sized
from fleet_programs import layers
from fleet_programs.expressions.callsite import prefix
from fleet_programs.program.variable import Variable

REMEDIES = {
    "auc": "metrics.Auc(name), which holds the counts",
    "batch_norm": "dygraph.BatchNorm(num_channels)",
    "conv2d": "dygraph.Conv2D(num_channels, num_filters, filter_size)",
    "conv2d_transpose": "dygraph.Conv2DTranspose(num_channels, num_filters, filter_size)",
    "embedding": "dygraph.Embedding(size)",
    "embedding_v2": "dygraph.Embedding(size)",
    "fc": "dygraph.Linear(input_dim, output_dim)",
    "group_norm": "dygraph.GroupNorm(channels, groups)",
    "gru_unit": "dygraph.GRUUnit(size)",
    "instance_norm": "dygraph.InstanceNorm(num_channels)",
    "layer_norm": "dygraph.LayerNorm(normalized_shape)",
    "lstm_unit": "dygraph.Linear(input_dim, output_dim) and the functions of a cell",
    "prelu": "dygraph.PRelu(mode)",
}
"""What of `fluid` holds the parameters, or counts, which a function would have to make."""

NUMBERS = frozenset({"axis", "depth", "dim", "k", "num_or_sections"})
LISTS = frozenset({"axes", "ends", "expand_times", "offsets", "out_shape", "perm", "shape", "starts", "strides"})
"""Arguments that are numbers, or lists of them, whatever they are given as: a tensor among them is read."""

_TENSOR = torch.Tensor
_HOMES = (composed, nets, layers, more)
"""Where a name is looked for: what PaddlePaddle means by one goes before what Fleet does."""


def _listed() -> list[str]:
    own = {name for home in (composed, layers, more) for name in home.__all__}
    return sorted(own | making.FUNCTIONS.keys())


__all__ = _listed()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = next((vars(home)[name] for home in _HOMES if name in vars(home)), None)
    if found is not None and name in sized.FIRST:
        found = sized.taking(found, sized.FIRST[name])
    if found is None and name not in making.FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = found if isinstance(found, type) else with_past(name, _either(name, found))
    globals()[name] = value
    return value


def _either(name: str, of_variables: Callable[..., Any] | None) -> Callable[..., Any]:
    """One function of a layer of programs and what does the same for tensors."""
    of_tensors = making.FUNCTIONS.get(name) or computed(name, of_variables)
    is_maker = name in making.FUNCTIONS
    defaults = _defaults(of_variables or of_tensors)

    @wraps(of_variables or of_tensors)
    def call(*args: Any, **named: Any) -> Any:
        if named and any(value is None for value in named.values()):
            named = {key: value for key, value in named.items() if value is not None or key not in defaults}
        if (args and isinstance(args[0], _TENSOR)) or _holds(_TENSOR, args, named):
            return of_tensors(*args, **named)
        if mode.is_dynamic() and not _holds(Variable, args, named):
            if is_maker:
                return of_tensors(*args, **named)
            raise UsageTypeError(f"{prefix()}{name} takes tensors here; make one of an array with to_variable(array)")
        if of_variables is None:
            raise NotSupportedError(f"{prefix()}{name} makes tensors, and is not built for programs")
        return of_variables(*args, **named)

    return call


def _defaults(layer: Callable[..., Any]) -> frozenset[str]:
    """Arguments whose default is something else than None: None means that nothing was said, as in PaddlePaddle."""
    empty = inspect.Parameter.empty
    return frozenset(
        name for name, one in inspect.signature(layer).parameters.items() if one.default not in (None, empty)
    )


def _holds(kind: type, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    for value in (*args, *named.values()) if named else args:
        if isinstance(value, kind):
            return True
        if isinstance(value, list | tuple) and any(
            isinstance(one, kind) or (type(one) is tuple and one and isinstance(one[0], kind)) for one in value
        ):
            return True
    return False


def computed(name: str, layer: Callable[..., Any] | None) -> Callable[..., Any]:
    """The layer for tensors: by a shortcut if there is one for the case, else by its operators.

    Where a shortcut fails, its error comes out, or the layer's own if the layer would have refused the arguments.
    """
    assert layer is not None
    remedy = f"use fluid.{REMEDIES[name]}" if name in REMEDIES else ""
    traced = Traced(name, layer, remedy)
    settings = {
        place: argument
        for place, argument in enumerate(inspect.signature(layer).parameters)
        if argument in NUMBERS | LISTS
    }

    def read(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not settings:
            return args, named
        return (
            tuple([_read(one, settings[i]) if i in settings else one for i, one in enumerate(args)]),
            {name: _read(one, name) if name in settings.values() else one for name, one in named.items()},
        )

    def compute(*args: Any, **named: Any) -> Any:
        return traced(*read(args, named))

    short = shortcuts.FUNCTIONS.get(name)
    if short is None:
        return compute

    def shortest(*args: Any, **named: Any) -> Any:
        try:
            made = short(*args, **named)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            refusal = traced.refusal(*read(args, named))
            if refusal is None:
                raise
            raise refusal from None
        return compute(*args, **named) if made is None else made

    return shortest


def _read(value: Any, name: str) -> Any:
    if isinstance(value, _TENSOR):
        return value.item() if value.numel() == 1 and name in NUMBERS else value.reshape(-1).tolist()
    if isinstance(value, list | tuple):
        return [one.item() if isinstance(one, _TENSOR) else one for one in value]
    return value
