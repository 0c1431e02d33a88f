"""Methods of torch's tensor for a class of ours: what they make has that class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import Any

import numpy as np
import torch

from fleet_paddle.imperative.callers import KEEPS_NUMBERS, MEANS_TORCH
from fleet_paddle.imperative.indexing import WIDE, beside, by_numbers, item_of, settled

_PLAIN = torch.Tensor
_DIM: Any = torch.Tensor.dim
_FRAME = sys._getframe

_OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SIGNS = ("neg", "pos", "abs", "invert")
_NO_TENSORS = frozenset(
    (
        *("apply_", "as_subclass", "backward", "data_ptr", "dim", "element_size", "get_device", "has_names"),
        *("is_coalesced", "is_complex", "is_conj", "is_contiguous", "is_floating_point", "is_inference", "is_neg"),
        *("is_nonzero", "is_pinned", "is_same_size", "is_set_to", "is_shared", "is_signed", "item", "map2_", "map_"),
        *("module_load", "ndimension", "nelement", "numel", "register_hook", "register_post_accumulate_grad_hook"),
        *("requires_grad_", "retain_grad", "share_memory_", "size", "storage", "storage_offset", "storage_type"),
        *("stride", "tolist", "type", "untyped_storage"),
    )
)


def wrap_methods(kind: type[torch.Tensor], own: Callable[[Any], Any], single: Callable[[Any], Any]) -> None:
    """Every method and operator of torch's tensor that makes tensors makes those of `kind`, a subclass without fields.

    Methods that `kind` has written itself stay. `own` gives the class to a tensor, or to those of a tuple or list.
    `single` makes one of shape [1] of a number: code that `callers.KEEPS_NUMBERS` gets the number.
    """
    names = [name for name in dir(torch.Tensor) if not name.startswith("_") and name not in _NO_TENSORS]
    for name in (*names, *(f"__{stem}__" for stem in _SIGNS)):
        base = getattr(torch.Tensor, name)
        if callable(base) and name not in vars(kind):
            setattr(kind, name, _giving(base, kind, own, single))
    _wrap_operators(kind, single)
    _wrap_properties(kind, own, single)


def _wrap_operators(kind: type[torch.Tensor], single: Callable[[Any], Any]) -> None:
    both_sides = [f"__{side}{stem}__" for stem in _OPERATORS for side in ("", "r")]
    for name in (*both_sides, *(f"__{stem}__" for stem in _COMPARISONS)):
        if hasattr(torch.Tensor, name):
            setattr(kind, name, _giving_of_two(getattr(torch.Tensor, name), kind, single))
    for stem in _OPERATORS:
        if hasattr(torch.Tensor, f"__i{stem}__"):
            in_place = _giving_of_two(getattr(torch.Tensor, f"__i{stem}__"), kind, single)
            setattr(kind, f"__i{stem}__", _rebinding(getattr(kind, f"__{stem}__"), in_place))
    kind.__getitem__ = _giving_item(torch.Tensor.__getitem__, kind, single)  # type: ignore[method-assign]
    kind.__hash__ = torch.Tensor.__hash__  # type: ignore[method-assign]  # Python drops it where __eq__ is set


def _wrap_properties(kind: type[torch.Tensor], own: Callable[[Any], Any], single: Callable[[Any], Any]) -> None:
    # By torch's functions, since torch.compile cannot follow a property of a property.
    kind.T = property(_giving(_turned, kind, own, single))  # type: ignore[assignment]
    kind.mT = property(_giving(lambda self: torch.transpose(self, -2, -1), kind, own, single))  # type: ignore[assignment]
    for name in ("H", "mH", "real", "imag", "data"):
        side = getattr(torch._C.TensorBase, name)
        setter = side.__set__ if name in ("data", "real", "imag") else None
        getter = _giving(side.__get__, kind, own, single)
        setattr(kind, name, property(_called(getter) if name in ("real", "imag") else getter, setter))


def _called(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`x.real()` for scripts, whose tensors have methods; the part itself, `x.real`, for code that keeps numbers."""

    def get(self: Any) -> Any:
        made = getter(self)
        return made if KEEPS_NUMBERS[_FRAME(1).f_code.co_filename] else lambda name=None: made  # noqa: ARG005

    return get


def _giving(
    base: Callable[..., Any], kind: type[torch.Tensor], own: Callable[[Any], Any], single: Callable[[Any], Any]
) -> Callable[..., Any]:
    @wraps(base)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = base(self, *args, **kwargs)
        if type(made) is _PLAIN:
            made.__class__ = kind
            return made if _DIM(made) or KEEPS_NUMBERS[_FRAME(1).f_code.co_filename] else single(made)
        if type(made) is kind:
            return made
        return dressed(made, kind) if KEEPS_NUMBERS[_FRAME(1).f_code.co_filename] else own(made)

    return method


def dressed(made: Any, kind: type[torch.Tensor]) -> Any:
    """What code that keeps numbers gets: the same object with the class, or a tuple or list of such."""
    if type(made) is _PLAIN:
        made.__class__ = kind
    elif isinstance(made, tuple | list):
        for one in made:
            dressed(one, kind)
    return made


def replaced(several: Any, own: Callable[[Any], Any]) -> Any:
    """The same list or tuple; another tuple of its kind where `own` made another object of one of them."""
    made = [own(one) for one in several]
    if all(map(is_, made, several)):
        return several
    if isinstance(several, list):
        several[:] = made
        return several
    kind = type(several)
    return kind._make(made) if hasattr(kind, "_make") else kind(made)


def _giving_of_two(
    base: Callable[..., Any], kind: type[torch.Tensor], single: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The same for operators, which are called most."""

    def operator(self: Any, other: Any) -> Any:
        made = base(self, other)
        if type(made) is _PLAIN:
            if made.dtype is WIDE:
                made = settled(made, self, other)
            made.__class__ = kind
            if not _DIM(made) and not KEEPS_NUMBERS[_FRAME(1).f_code.co_filename]:
                return single(made)  # a product of two vectors
        elif made is NotImplemented and isinstance(other, np.ndarray):
            return operator(self, beside(self, other))
        return made

    return operator


def _giving_item(
    base: Callable[..., Any], kind: type[torch.Tensor], single: Callable[[Any], Any]
) -> Callable[..., Any]:
    def operator(self: Any, index: Any) -> Any:
        if isinstance(index, _PLAIN | tuple) and not KEEPS_NUMBERS[_FRAME(1).f_code.co_filename]:
            index = by_numbers(index)
        try:
            made = base(self, index)
        except (IndexError, ValueError) as refusal:
            made = item_of(base, self, index, refusal)
        if type(made) is _PLAIN:
            made.__class__ = kind
            if not _DIM(made) and not KEEPS_NUMBERS[_FRAME(1).f_code.co_filename]:
                return single(made)
        return made

    return operator


def _rebinding(plain: Callable[..., Any], in_place: Callable[..., Any]) -> Callable[..., Any]:
    """`x += 1` makes another tensor, as scripts expect; in code of torch or Fleet it changes this one, as there."""

    def operator(self: Any, other: Any) -> Any:
        return (in_place if MEANS_TORCH[_FRAME(1).f_code.co_filename] else plain)(self, other)

    return operator


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    """The dimensions in reverse."""
    rank = torch.Tensor.dim(tensor)
    return torch.t(tensor) if rank == 2 else torch.permute(tensor, tuple(range(rank - 1, -1, -1)))
