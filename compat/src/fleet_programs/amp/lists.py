"""Which operators compute in half precision: white ones do, black ones do not, grey ones follow their inputs.

An operator that is in no list is black: nobody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.errors import UsageError, UsageTypeError

WHITE = frozenset({"conv2d", "matmul", "matmul_v2", "mul"})
"""Products, which half precision makes fast and whose sums are kept in single precision inside."""

GREY = frozenset(
    [
        "elementwise_add",
        "elementwise_sub",
        "elementwise_mul",
        "elementwise_div",
        "elementwise_max",
        "elementwise_min",
        "relu",
        "relu6",
        "leaky_relu",
        "tanh",
        "sigmoid",
        "gelu",
        "scale",
        "dropout",
        "pool2d",
        "concat",
        "split",
        "stack",
        "slice",
        "reshape",
        "reshape2",
        "transpose",
        "transpose2",
        "squeeze",
        "squeeze2",
        "unsqueeze",
        "unsqueeze2",
        "flatten",
        "flatten2",
        "flatten_contiguous_range",
        "gather",
        "expand",
        "expand_v2",
    ]
)
"""Elementwise or moving values about: as good in either."""


class AutoMixedPrecisionLists:
    """The lists, and what a script adds to them.

    `custom_white_list` and `custom_black_list` are types of operators; `custom_black_varnames` names of variables: an
    operator that touches one computes in single precision.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
    ) -> None:
        white = _types("custom_white_list", custom_white_list)
        black = _types("custom_black_list", custom_black_list)
        if both := sorted(white & black):
            raise UsageError(f"{both[0]!r} is in custom_white_list and in custom_black_list; leave it out of one")
        self.white_list = (WHITE | white) - black
        self.gray_list = GREY - white - black
        self.black_varnames = _types("custom_black_varnames", custom_black_varnames)


def _types(what: str, given: Iterable[str] | None) -> frozenset[str]:
    found = [] if given is None else [given] if isinstance(given, str) else list(given)
    for one in found:
        if not isinstance(one, str):
            raise UsageTypeError(f"{what} must be a list of names, got {one!r}")
    return frozenset(found)
