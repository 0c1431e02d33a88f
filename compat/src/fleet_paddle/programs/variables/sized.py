"""Layers and functions whose sizes may be variables: with numbers alone they are what they were.

`FIRST` has those of 1.x by name, `SECOND` those of 2.0, each as what makes the new function of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from fleet_paddle.programs.variables.computed import add
from fleet_paddle.programs.variables.subscripts import item
from fleet_programs import layers
from fleet_programs.definition.dtypes import canonical
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

Build = Callable[[dict[str, Any]], Any]


def taking(plain: Callable[..., Any], build: Build, names: Sequence[str] | None = None) -> Callable[..., Any]:
    """`plain`, but `build` of the arguments by name where one after the first is a variable, or a list with one.

    `names` are those of a function that takes them in their order and has no signature.
    """
    shape = None if names is not None else signature(plain)

    @wraps(plain)
    def call(*args: Any, **named: Any) -> Any:
        if shape is None:
            given = dict(zip(names or (), args, strict=True))
        else:
            bound = shape.bind(*args, **named)
            bound.apply_defaults()
            given = dict(bound.arguments)
        if not any(_varies(one) for one in list(given.values())[1:]):
            return plain(*args, **named)
        return build(given)

    return call


def _varies(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(one, Variable) for one in value)
    return isinstance(value, Variable)


def _sized(type: str, x: Variable, sizes: Any, given: dict[str, Any]) -> Variable:
    """The operator; what stands in a list is a number or a variable, and a variable alone has all of them."""
    if isinstance(sizes, Variable):
        several, numbers = [sizes], []
    else:
        several = [one for one in sizes if isinstance(one, Variable)]
        numbers = [None if isinstance(one, Variable) else int(one) for one in sizes]
    made: Variable = add(type, {"X": x, "Sizes": several}, {"numbers": numbers}, given.get("name"))
    return LayerBuilder(type).activate(made, given["act"]) if given.get("act") else made


def _reshape(given: dict[str, Any]) -> Variable:
    actual = given.get("actual_shape")
    return _sized("reshape_at", given["x"], given["shape"] if actual is None else actual, given)


def _slice(given: dict[str, Any]) -> Variable:
    x = given["x"] if "x" in given else given["input"]
    key: list[Any] = [slice(None)] * x.ndim
    steps = given.get("strides") or [1] * len(given["axes"])
    ends = [_apart(given[name], len(given["axes"])) for name in ("starts", "ends")]
    for axis, start, stop, step in zip(given["axes"], *ends, _apart(steps, len(given["axes"])), strict=True):
        key[axis] = slice(start, stop, None if not isinstance(step, Variable) and step == 1 else step)
    return item(x, tuple(key))


def _apart(given: Any, count: int) -> list[Any]:
    if not isinstance(given, Variable):
        return list(given)
    return [given] if count == 1 else [given[place : place + 1] for place in range(count)]


def _range(given: dict[str, Any]) -> Variable:
    ends = [given["start"], given["end"], given["step"]]
    if ends[1] is None:
        ends = [0, ends[0], ends[2]]
    several = [one for one in ends if isinstance(one, Variable)]
    numbers = [None if isinstance(one, Variable) else one for one in ends]
    kind = canonical(given["dtype"]) if given["dtype"] is not None else several[0].dtype
    layer = LayerBuilder("range", given.get("name"))
    out = layer.temporary(kind, stop_gradient=True)
    layer.op("range_at", {"Sizes": several}, {"Out": out}, {"numbers": numbers, "dtype": kind})
    return out


def range_of(start: Any, end: Any, step: Any, dtype: Any, name: str | None = None) -> Variable:
    """Numbers from `start` to before `end`, of which one at least is a variable."""
    return _range({"start": start, "end": end, "step": step, "dtype": dtype, "name": name})


def _one_hot(given: dict[str, Any]) -> Variable:
    x = given["input"]
    flat = layers.squeeze(x, [x.ndim - 1]) if x.shape[-1] == 1 else x
    made: Variable = add("places_below", {"X": flat, "Depth": given["depth"]}, {"dtype": "float32", "is_one": True})
    return made


def _mask(given: dict[str, Any]) -> Variable:
    attrs = {"dtype": canonical(given["dtype"])}
    made: Variable = add("places_below", {"X": given["x"], "Depth": given["maxlen"]}, attrs, given.get("name"))
    return made


def _clip(given: dict[str, Any]) -> Variable:
    made: Variable = given["x"]
    for limit, within in ((given["min"], layers.elementwise_max), (given["max"], layers.elementwise_min)):
        if limit is not None:
            other = limit if isinstance(limit, Variable) else layers.fill_constant([1], made.dtype, float(limit))
            made = within(made, other)
    return made


def _scale(given: dict[str, Any]) -> Variable:
    x, factor, bias = given["x"], given["scale"], float(given["bias"])
    if given["bias_after_scale"]:
        made = layers.scale(layers.elementwise_mul(x, factor), 1.0, bias)
    else:
        made = layers.elementwise_mul(layers.scale(x, 1.0, bias), factor)
    return LayerBuilder("scale", given.get("name")).activate(made, given.get("act"))


FIRST: dict[str, Build] = {
    "expand": lambda given: _sized("tile_at", given["x"], given["expand_times"], given),
    "one_hot": _one_hot,
    "pow": lambda given: layers.elementwise_pow(given["x"], given["factor"]),
    "range": _range,
    "reshape": _reshape,
    "scale": _scale,
    "sequence_mask": _mask,
    "slice": _slice,
    "strided_slice": _slice,
    "topk": lambda given: add("top_k_v2", {"X": given["input"], "K": given["k"]}, {}, given.get("name")),
}
SECOND: dict[str, Build] = {
    "clip": _clip,
    "expand": lambda given: _sized("expand_at", given["x"], given["shape"], given),
    "broadcast_to": lambda given: _sized("expand_at", given["x"], given["shape"], given),
    "reshape": _reshape,
    "scale": _scale,
    "slice": _slice,
    "strided_slice": _slice,
}
