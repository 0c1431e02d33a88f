"""Layers that change shape and order, put variables together and take them apart."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = [
    "concat",
    "crop",
    "expand",
    "flatten",
    "pad",
    "reshape",
    "reverse",
    "slice",
    "split",
    "squeeze",
    "stack",
    "transpose",
    "unsqueeze",
    "unstack",
]


def reshape(
    x: Variable,
    shape: Sequence[int],
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,  # noqa: ARG001 - memory is shared where that is safe, whatever is asked for
    name: str | None = None,
) -> Variable:
    """The same elements in another shape: 0 copies a size of `x`, one -1 is found from the others."""
    layer = Layer("reshape", name)
    x = layer.variable(x, "x")
    if actual_shape is not None:
        raise NotSupportedError("reshape: actual_shape must be left out; use -1 for the size that a batch decides")
    attrs = {"shape": [int(size) for size in shape]}
    is_needed = x.shape.count(-1) > 1
    return layer.activate(layer.apply_with_shape("reshape", {"X": x}, attrs, x.dtype, is_needed=is_needed), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix of the first `axis` dimensions and of the rest."""
    layer = Layer("flatten", name)
    x = layer.variable(x, "x")
    is_needed = x.shape.count(-1) > 1
    return layer.apply_with_shape("flatten", {"X": x}, {"axis": int(axis)}, x.dtype, is_needed=is_needed)


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without some dimensions of size 1; without all of them if `axes` is empty."""
    layer = Layer("squeeze", name)
    input = layer.variable(input)
    gone = [int(axis) for axis in axes] or [i for i, size in enumerate(input.shape) if size == 1]
    return layer.apply("squeeze", {"X": input}, {"axes": gone}, input.dtype)


def unsqueeze(input: Variable, axes: Sequence[int] | int, name: str | None = None) -> Variable:
    """With more dimensions of size 1, which are at `axes` of the result."""
    layer = Layer("unsqueeze", name)
    input = layer.variable(input)
    new = [axes] if isinstance(axes, int) else [int(axis) for axis in axes]
    return layer.apply("unsqueeze", {"X": input}, {"axes": new}, input.dtype)


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """The dimensions in another order: dimension i of the result is `perm[i]` of `x`."""
    layer = Layer("transpose", name)
    x = layer.variable(x, "x")
    return layer.apply("transpose", {"X": x}, {"axis": [int(axis) for axis in perm]}, x.dtype)


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """Back to front along some axes."""
    layer = Layer("reverse")
    x = layer.variable(x, "x")
    axes = [axis] if isinstance(axis, int) else [int(one) for one in axis]
    return layer.apply("reverse", {"X": x}, {"axis": axes}, x.dtype)


def concat(input: Sequence[Variable] | Variable, axis: int = 0, name: str | None = None) -> Variable:
    """Variables one after the other along `axis`."""
    layer = Layer("concat", name)
    parts = [input] if isinstance(input, Variable) else [layer.variable(one) for one in input]
    if not parts:
        raise layer.error("input must hold at least one Variable")
    out = layer.temporary(parts[0].dtype)
    outputs = {"Out": out}
    num_unknown = builtins.sum(-len(part.shape) <= axis < len(part.shape) and part.shape[axis] < 0 for part in parts)
    if num_unknown > 1:
        outputs["Sizes"] = layer.temporary("int64", stop_gradient=True)
    layer.op("concat", {"X": parts}, outputs, {"axis": int(axis)})
    return out


def split(
    input: Variable, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None
) -> list[Variable]:
    """Equal parts along `dim`, so many, or parts of given sizes, one of which may be -1 for the rest."""
    layer = Layer("split", name)
    input = layer.variable(input)
    sections = [] if isinstance(num_or_sections, int) else [int(size) for size in num_or_sections]
    num = num_or_sections if isinstance(num_or_sections, int) else 0
    if num < 1 and not sections:
        raise layer.error(f"num_or_sections must be a number of parts or their sizes, got {num_or_sections!r}")
    outs = [layer.temporary(input.dtype) for _ in builtins.range(num or len(sections))]
    layer.op("split", {"X": input}, {"Out": outs}, {"axis": int(dim), "num": num, "sections": sections})
    return outs


def stack(x: Sequence[Variable] | Variable, axis: int = 0) -> Variable:
    """Variables of one shape beside each other along a new axis."""
    layer = Layer("stack")
    parts = [x] if isinstance(x, Variable) else [layer.variable(one, "x") for one in x]
    if not parts:
        raise layer.error("x must hold at least one Variable")
    out = layer.temporary(parts[0].dtype)
    layer.op("stack", {"X": parts}, {"Y": out}, {"axis": int(axis)})
    return out


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The parts of a variable along an axis, which goes."""
    layer = Layer("unstack")
    x = layer.variable(x, "x")
    if not -len(x.shape) <= axis < len(x.shape):
        raise layer.error(f"axis must be between {-len(x.shape)} and {len(x.shape) - 1}, got {axis}")
    count = x.shape[axis] if num is None else num
    if count < 1:
        raise layer.error(f"axis {axis} of {x.name!r} has no known size; unstack along another one")
    outs = [layer.temporary(x.dtype) for _ in builtins.range(count)]
    layer.op("unstack", {"X": x}, {"Y": outs}, {"axis": int(axis), "num": int(count)})
    return outs


def expand(x: Variable, expand_times: Sequence[int], name: str | None = None) -> Variable:
    """x repeated along each dimension so many times."""
    layer = Layer("expand", name)
    x = layer.variable(x, "x")
    return layer.apply("expand", {"X": x}, {"expand_times": [int(one) for one in expand_times]}, x.dtype)


def slice(input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Variable:
    """The elements from `starts` up to but without `ends` along `axes`; negative numbers count from the end."""
    layer = Layer("slice")
    input = layer.variable(input)
    attrs = {name: [int(one) for one in given] for name, given in (("axes", axes), ("starts", starts), ("ends", ends))}
    rank = len(input.shape)
    is_needed = any(-rank <= axis < rank and input.shape[axis] < 0 for axis in attrs["axes"])
    return layer.apply_with_shape("slice", {"Input": input}, attrs, input.dtype, is_needed=is_needed)


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """x with `pad_value` around it: how many before and after, for each dimension."""
    layer = Layer("pad", name)
    x = layer.variable(x, "x")
    attrs = {"paddings": [int(one) for one in paddings], "pad_value": float(pad_value)}
    return layer.apply("pad", {"X": x}, attrs, x.dtype)


def crop(x: Variable, shape: Sequence[int], offsets: Sequence[int] | None = None, name: str | None = None) -> Variable:
    """The part of `x` of this shape that begins at `offsets`; -1 takes the rest of a dimension."""
    layer = Layer("crop", name)
    x = layer.variable(x, "x")
    sizes = [int(size) for size in shape]
    begin = [0] * len(sizes) if offsets is None else [int(one) for one in offsets]
    return layer.apply("crop", {"X": x}, {"shape": sizes, "offsets": begin}, x.dtype)
