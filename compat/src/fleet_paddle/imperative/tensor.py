"""`Tensor` and `Parameter`: torch's, with the methods that scripts of imperative Paddle call on them.

Any torch function takes them. `__torch_function__` is switched off, as it is for torch.nn.Parameter: that hook costs
several microseconds at every operation. Instead, methods and operators change the class of the tensor they have just
made, in place, and so do layers and the functions of this package; that costs a fraction of one. What a function of
torch itself makes is a plain torch.Tensor; `to_tensor` makes it one of these.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.imperative.backward_strategy import BackwardStrategy
from fleet_paddle.imperative.callers import KEEPS_NUMBERS
from fleet_paddle.imperative.indexing import assigned, put
from fleet_paddle.imperative.shape import Shape, Size
from fleet_paddle.imperative.wrapping import dressed, replaced, wrap_methods
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.executor.single import as_single
from fleet_programs.program.variable import Penalty

__all__ = ["Parameter", "Tensor"]

T = TypeVar("T")

_PLAIN = torch.Tensor
_FRAME = sys._getframe
_SEVERAL = (tuple, list)
_OFF = torch._C._disabled_torch_function_impl


@overload
def as_paddle(made: torch.Tensor) -> Tensor: ...
@overload
def as_paddle(made: T) -> T: ...
def as_paddle(made: Any) -> Any:
    """The same object; if it is a plain torch tensor, or a tuple or list of them, it has the class Tensor now.

    A number is a view of shape [1], since Paddle's tensors have one dimension at least: then it is another object.
    """
    kind = type(made)
    if kind is _PLAIN:
        made.__class__ = Tensor
        return made if _DIM(made) else single(made)
    if kind is Tensor:
        return made if _DIM(made) else single(made)
    return replaced(made, as_paddle) if isinstance(made, _SEVERAL) else made


def single(number: Tensor) -> Tensor:
    """A tensor without dimensions as one of shape [1]: the same memory, and gradients flow."""
    made: Any = _RESHAPE(number, (1,))
    made.__class__ = Tensor
    return made  # type: ignore[no-any-return]


def fresh(made: torch.Tensor, given: torch.Tensor) -> Tensor:
    """`as_paddle`, of a copy where an operation had nothing to do and `made` is what it was given."""
    return as_paddle(_CLONE(made) if made is given else made)


class Tensor(torch.Tensor):
    """A torch tensor with `numpy()` that always works, `stop_gradient`, `astype`, `gradient()` and the like."""

    __torch_function__ = _OFF  # type: ignore[assignment]

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        """The sizes, which compare and print as a list."""
        return Shape(_SHAPE(self))

    @property
    def grad(self) -> Any:
        """What backward has left, as a Tensor; None before."""
        made = _GET_GRAD(self)
        if type(made) is _PLAIN:
            made.__class__ = Tensor
        return made

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        _SET_GRAD(self, value)

    @grad.deleter
    def grad(self) -> None:
        _SET_GRAD(self, None)

    @property
    def stop_gradient(self) -> bool:
        """Whether nothing flows back through it; True for what a script makes, False for parameters."""
        return not self.requires_grad and self.__dict__.get("_stops", True)

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        if not (self.is_floating_point() or self.is_complex()):  # nothing flows to whole numbers, whatever is said
            self.__dict__["_stops"] = value
            return
        if self.is_leaf:
            self.requires_grad_(not value)
        elif value and self._is_view():
            _cut_off(self)
        elif value:
            self.detach_()

    @property
    def name(self) -> str | None:
        """What a layer or a script calls it."""
        return self.__dict__.get("_name")

    @name.setter
    def name(self, value: str | None) -> None:
        self.__dict__["_name"] = value

    @property
    def size(self) -> Size:
        """The number of elements; called, as torch does, the sizes or one of them."""
        made = Size(_NUMEL(self))
        made.shape = self.shape
        return made

    @property
    def persistable(self) -> bool:
        """Whether it is part of a layer's state: True for parameters."""
        return isinstance(self, nn.Parameter)

    @property
    def place(self) -> torch.device:
        """Where its values are."""
        return self.device

    def numpy(self, *, force: bool = True) -> npt.NDArray[Any]:  # noqa: ARG002 - torch's name for what is done anyway
        """A copy of the values as an array, with a gradient or without, on any device; one value has shape [1].

        An array of one value is a number too: float(loss.numpy()), '%f' % loss.numpy().
        """
        values = _DETACH(self)
        if values.layout is not torch.strided:
            values = values.to_dense()
        if values.dtype is torch.bfloat16:
            values = values.float()
        if values.is_conj():  # a conjugate that nobody has computed yet
            values = values.resolve_conj()
        array: npt.NDArray[Any] = _NUMPY(values.cpu()).copy()
        return as_single(array.reshape(1) if array.ndim == 0 else array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a tensor is a copy of its values; leave copy=False out")
        array = np.asarray(self.numpy())
        return array if dtype is None else array.astype(dtype, copy=False)

    def __iter__(self) -> Iterator[Tensor]:
        if not _DIM(self):
            raise UsageTypeError("a tensor without dimensions has nothing to go through; reshape it to [1]")
        parts = _UNBIND(self)
        return iter(dressed(parts, Tensor) if KEEPS_NUMBERS[_FRAME(1).f_code.co_filename] else as_paddle(parts))

    def __setitem__(self, index: Any, value: Any) -> None:
        given = assigned(self, value)
        try:
            _SETITEM(self, index, given)
        except ValueError as refusal:
            put(self, index, given, refusal)

    def astype(self, dtype: Any) -> Tensor:
        """The values as another type, such as 'int64'."""
        return fresh(self.to(torch_dtype(canonical(dtype))), self)

    cast = astype

    def gradient(self) -> npt.NDArray[Any] | None:
        """What backward has left, as an array; that of a sparse embedding has a row for each id, zero without one."""
        return None if self.grad is None else as_paddle(self.grad).numpy()

    def clear_gradient(self) -> None:
        """Drop what backward has left."""
        self.grad = None

    clear_grad = clear_gradient

    def backward(  # type: ignore[override]
        self,
        grad_tensor: torch.Tensor | BackwardStrategy | None = None,
        retain_graph: bool = False,
        *,
        gradient: torch.Tensor | None = None,
        create_graph: bool = False,
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Gradients of this tensor; of the sum of its elements, if there are several.

        With `create_graph` they can be differentiated in turn; with `inputs` they are left at those tensors alone.
        """
        start = gradient if grad_tensor is None else grad_tensor
        if isinstance(start, BackwardStrategy):
            start = None
        if start is None and inputs is None:  # straight to what torch's own comes to after many questions
            _RUN((self,), (_ONES(self),), retain_graph or create_graph, create_graph, (), True, True)
            return
        if start is None and _NUMEL(self) != 1:
            start = _ONES(self)
        _BACKWARD(self, start, retain_graph or create_graph, create_graph, inputs)

    def item(self, *places: int) -> Any:
        """The only value, as Python has it; with a place in the flat tensor, or one for each dimension, that value."""
        if not places:
            return _ITEM(self)
        return _ITEM(_DETACH(self).reshape(-1)[places[0]] if len(places) == 1 else _DETACH(self)[places])

    @property
    def inplace_version(self) -> int:
        """How often it was changed in place."""
        return int(self._version)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __format__(self, format_spec: str) -> str:
        is_number = _NUMEL(self) == 1 and (format_spec or self.dim() < 2)
        if is_number and not self.is_meta:
            return format(self.item(), format_spec)
        return object.__format__(self, format_spec)  # not of str(self): torch's own formats the elements

    def __reduce_ex__(self, protocol: Any) -> Any:
        # As a plain tensor, so that torch.load() takes what torch.save() wrote; it refuses classes that it cannot know.
        return _DETACH(self).requires_grad_(self.requires_grad).__reduce_ex__(protocol)

    def __copy__(self) -> Tensor:
        return _alias(_DETACH(self), self.requires_grad)

    def set_value(self, value: Any) -> None:
        """Other values, in place."""
        new = torch.as_tensor(value)
        if tuple(new.shape) != tuple(self.shape):
            raise UsageError(f"set_value: the tensor has shape {self.shape}, the values {list(new.shape)}")
        with torch.no_grad():
            self.copy_(new)

    def transpose(self, *dims: Any, perm: Any = None) -> Tensor:
        """The dimensions in the order `perm`; given two numbers, these two change places."""
        order = perm if perm is not None else dims[0] if len(dims) == 1 else None
        made: torch.Tensor = _TRANSPOSE(self, *dims) if order is None else _PERMUTE(self, tuple(order))
        return as_paddle(made)


class Parameter(Tensor, nn.Parameter):
    """A tensor that a layer trains.

    `optimize_attr`, `regularizer` and `need_clip` are what a ParamAttr said of training; optimizers look there.
    """

    __torch_function__ = _OFF  # type: ignore[assignment]

    optimize_attr: dict[str, float] = {"learning_rate": 1.0}  # noqa: RUF012 - replaced, never changed
    regularizer: Penalty | None = None
    need_clip = True

    def __new__(cls, data: torch.Tensor, requires_grad: bool = True) -> Parameter:
        if not isinstance(data, torch.Tensor):
            raise UsageTypeError(f"a parameter is made of a tensor, got {type(data).__name__}; use to_tensor()")
        return torch.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __deepcopy__(self, memo: Any) -> Any:
        made = nn.Parameter.__deepcopy__(self, memo)
        made.__dict__.update(self.__dict__)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (_DETACH(self), self.requires_grad, self.__dict__)

    def __copy__(self) -> Parameter:
        return _rebuilt(_DETACH(self), self.requires_grad, self.__dict__)

    @property
    def data(self) -> torch.Tensor:
        """The values as a plain tensor, which is what torch.compile asks for."""
        return _DATA.__get__(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        _DATA.__set__(self, value)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Parameter containing:\n{_DETACH(self)!r}"

    @property
    def trainable(self) -> bool:
        """Whether it is trained."""
        return self.requires_grad

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.requires_grad_(value)


def _alias(values: torch.Tensor, requires_grad: bool) -> Tensor:
    return as_paddle(values.requires_grad_(requires_grad))


def _rebuilt(values: torch.Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Parameter:
    made = Parameter(values, requires_grad)
    made.__dict__.update(attributes)
    return made


def _cut_off(view: Tensor) -> None:
    """What `detach_` does, for a view of another tensor, which torch refuses: it takes the place of a detached one."""
    try:
        torch.utils.swap_tensors(view, view.detach())
    except RuntimeError:
        raise UsageError(
            "stop_gradient = True: this tensor is a part of another one and was used already; use x = x.detach()"
        ) from None


_SHAPE = torch._C.TensorBase.shape.__get__  # type: ignore[attr-defined]
_GRAD: Any = torch._C.TensorBase.grad
_GET_GRAD, _SET_GRAD = _GRAD.__get__, _GRAD.__set__
_DATA: Any = torch._C.TensorBase.data
_CLONE: Any = torch.Tensor.clone
_DIM: Any = torch.Tensor.dim
_RESHAPE: Any = torch.Tensor.reshape
_UNBIND: Any = torch.Tensor.unbind
_NUMPY: Any = torch.Tensor.numpy
_DETACH: Any = torch.Tensor.detach
_NUMEL: Any = torch.Tensor.numel
_ITEM: Any = torch.Tensor.item
_SETITEM: Any = torch.Tensor.__setitem__
_BACKWARD: Any = torch.Tensor.backward
_ONES: Any = torch.ones_like
_RUN: Any = torch.autograd.Variable._execution_engine.run_backward
_TRANSPOSE: Any = torch.Tensor.transpose
_PERMUTE: Any = torch.Tensor.permute

wrap_methods(Tensor, as_paddle, single)
# What processes hand each other, such as workers of a DataLoader, keeps its class.
ForkingPickler.register(Tensor, lambda one: (_alias, (_DETACH(one), one.requires_grad)))
