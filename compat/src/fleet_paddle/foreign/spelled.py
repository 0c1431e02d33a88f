"""Operators of PaddlePaddle's files that are called otherwise here, or say a thing in other attributes.

What is left in the attributes afterwards must be known to the operator of that name; an attribute that says what
happens here anyway is taken out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Attrs = dict[str, Any]

RENAMED: dict[str, str] = {
    "bilinear_interp_v2": "interp_v2",
    "depthwise_conv2d": "conv2d",
    "depthwise_conv2d_transpose": "conv2d_transpose",
    "flatten2": "flatten",
    "matmul_v2": "matmul",
    "nearest_interp_v2": "interp_v2",
    "pad3d": "pad_around",
    "reshape2": "reshape",
    "squeeze2": "squeeze",
    "transpose2": "transpose",
    "unsqueeze2": "unsqueeze",
}
"""What an operator is called there -> what it is called here."""


def respelled(type: str, given: Attrs) -> tuple[str, Attrs]:
    """The type and the attributes of an operator as they are here; lists that say nothing are left out."""
    attrs = {name: value for name, value in given.items() if value != []}
    if type in _OTHERWISE:
        _OTHERWISE[type](attrs)
    return RENAMED.get(type, type), attrs


def _drop(attrs: Attrs, **usual: Any) -> None:
    """Take attributes out that say what happens anyway."""
    for name, value in usual.items():
        if attrs.get(name) in (value if isinstance(value, tuple) else (value,)):
            attrs.pop(name, None)


def _matmul(attrs: Attrs) -> None:
    for there, here in (("trans_x", "transpose_X"), ("trans_y", "transpose_Y")):
        attrs[here] = attrs.pop(there, False)


def _place_of_largest(attrs: Attrs) -> None:
    _drop(attrs, dtype=(3, -1), keepdims=False, flatten=False)


def _filled(attrs: Attrs) -> None:
    if text := attrs.pop("str_value", ""):  # which has all digits
        attrs["value"] = float(text)


def _slice(attrs: Attrs) -> None:
    if set(attrs.get("infer_flags", [1])) == {1}:  # all sizes are known
        attrs.pop("infer_flags", None)


def _prelu(attrs: Attrs) -> None:
    _drop(attrs, data_format="NCHW")


def _interpolated(attrs: Attrs) -> None:
    sizes = [attrs.pop(name, -1) for name in ("out_d", "out_h", "out_w")]
    known = [size for size in sizes if size > 0]
    if known:
        attrs["size"] = known
    attrs["mode"] = attrs.pop("interp_method", "nearest")
    attrs["data_format"] = attrs.pop("data_layout", "NCHW")


def _recurrent(attrs: Attrs) -> None:
    attrs["time_major"] = True
    _drop(attrs, dropout_prob=0.0)
    for name in ("seed", "input_size"):  # chance is for training, and the weights have the size
        attrs.pop(name, None)


_OTHERWISE: dict[str, Callable[[Attrs], None]] = {
    "arg_max": _place_of_largest,
    "arg_min": _place_of_largest,
    "bilinear_interp_v2": _interpolated,
    "fill_constant": _filled,
    "matmul_v2": _matmul,
    "nearest_interp_v2": _interpolated,
    "prelu": _prelu,
    "rnn": _recurrent,
    "slice": _slice,
}
