"""`x[...]` of a variable with what Fleet's own index has no word for: steps, new dimensions, lists, other variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs.variables.computed import add
from fleet_programs import layers
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.expressions.callsite import prefix
from fleet_programs.program.variable import Variable


def item(x: Variable, key: Any) -> Variable:
    """The part of a variable that a key names, as the same key names one of a tensor."""
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_array(one) if isinstance(one, list | np.ndarray) else one for one in parts]
    if any(isinstance(one, Variable) and one.dtype == "bool" for one in parts):
        return _masked(x, parts)
    named, written = _written(x, key, parts)
    made: Variable = add("getitem", {"X": x, **named}, {"key": written})
    return made


def put(x: Variable, key: Any, value: Any) -> None:
    """`x[key] = value`: what reads `x` from here on finds the new values, and gradients flow to old and new ones."""
    if x.is_data:
        raise UsageError(f"{prefix()}{x.name!r} is fed, and takes no new values; copy it first: y = paddle.assign(x)")
    mask = key if isinstance(key, Variable) and key.dtype == "bool" else None
    given = value if isinstance(value, Variable) else _array(np.asarray(value, dtype=x.dtype))
    given = given if given.dtype == x.dtype else layers.cast(given, x.dtype)
    if mask is not None:
        made: Variable = add("masked_put", {"X": x, "Mask": mask, "Value": given})
    else:
        parts = list(key) if isinstance(key, tuple) else [key]
        named, written = _written(x, key, [_array(one) if isinstance(one, list | np.ndarray) else one for one in parts])
        made = add("setitem", {"X": x, **named, "Value": given}, {"key": written})
    layers.assign(made, x)


def _written(x: Variable, key: Any, parts: list[Any]) -> tuple[dict[str, list[Variable]], list[list[Any]]]:
    """What stands between brackets as plain values, and the variables among it by their slots."""
    written: list[list[Any]] = []
    indexes: list[Variable] = []
    bounds: list[Variable] = []
    for one in parts:
        if isinstance(one, Variable):
            if one.dtype not in INTEGERS:
                raise UsageError(
                    f"{prefix()}{x.name!r} takes whole numbers between [], got {one.name!r} of {one.dtype}"
                )
            indexes.append(one)
            written.append(["index"])
        elif isinstance(one, slice):
            ends = (one.start, one.stop, one.step)
            bounds += [end for end in ends if isinstance(end, Variable)]
            written.append(["slice", *("variable" if isinstance(end, Variable) else _whole(x, end) for end in ends)])
        elif one is None:
            written.append(["new"])
        else:
            written.append(["dots"] if one is ... else ["number", _whole(x, one)])
    if [kind for kind, *_ in written].count("dots") > 1:
        raise UsageError(f"{prefix()}{x.name!r} takes one ... between [], got {key!r}")
    if not any(one[0] == "dots" for one in written):
        written.append(["dots"])
    return {"Index": indexes, "Bounds": bounds}, written


def _array(given: Any) -> Variable:
    array = np.asarray(given)
    return layers.cast(layers.assign(array.astype("int32")), "bool") if array.dtype == bool else layers.assign(array)


def _masked(x: Variable, parts: list[Any]) -> Variable:
    """The entries where a mask of all the first dimensions is True."""
    if len(parts) != 1:
        raise NotSupportedError(
            f"{prefix()}{x.name!r}: a mask between [] must stand alone; use paddle.nonzero(mask) and paddle.gather_nd"
        )
    return layers.gather_nd(x, layers.where(parts[0]))


def _whole(x: Variable, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(
            f"{prefix()}{x.name!r} takes whole numbers, slices, None, lists and variables between [], got {value!r}"
        )
    return int(value)
