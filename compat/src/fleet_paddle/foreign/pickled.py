"""A pickle as data: dicts, lists, tuples, texts, numbers and arrays of numbers; anything else is refused by its name.

A pickle is a program: it names functions and calls them. Here a name is looked up in the table `KNOWN`, and what stands
there are stand-ins that keep their arguments. Arrays are made of those when the file is read to its end, from bytes
whose number fits. So no function of a file is ever called, not even of numpy. `operators.py` looks through a pickle
before that, and what is made may not be much more than the file.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.errors import CheckpointError
from fleet_paddle.foreign.operators import Refused, check, shown

SLICED = "UnpackBigParamInfor@@"
"""Where a dict says which arrays were cut into pieces: those above 4 GiB, which old pickles cannot hold."""

_KINDS = "biufc"
"""Arrays of bools, whole and other numbers."""

_MAX_DEPTH = 100
_MAX_DIMS = 32
_SMALL = 64
_TIMES = 4
"""What is made of a file may have so many times its bytes: those of an array are counted twice at most."""


class _Budget:
    """How much may still be made: a pickle can name the same bytes a million times, and each time be a copy."""

    def __init__(self, left: int) -> None:
        self._left = left

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise Refused("more values than a file of its size can hold")


class _Dtype:
    """What a pickle says of a type: `dtype("f4")`, then its order of bytes."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or len(code) > 8:
            raise Refused(f"an array of type {shown(code)}")
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise Refused(f"an array whose order of bytes is {shown(order)}")
        self.order = order

    def found(self) -> np.dtype[Any]:
        try:
            dtype = np.dtype(self.code)
        except TypeError:
            raise Refused(f"an array of type {self.code!r}") from None
        if dtype.kind not in _KINDS:
            raise Refused(f"an array of type {self.code!r}, which is not of numbers")
        return dtype.newbyteorder(">") if self.order == ">" else dtype.newbyteorder("<")


class _Array:
    """What a pickle says of an array: nothing at first, then version, shape, type, order and bytes."""

    state: Any = None

    def __init__(self, *_: object) -> None:
        """Kind, shape and type of an empty array: the state replaces them."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def found(self) -> npt.NDArray[Any]:
        state = self.state
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise Refused("an array without values")
        shape, dtype, in_columns, raw = state[-4:]
        if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple):
            raise Refused("an array without a type or a shape")
        if len(shape) > _MAX_DIMS:
            raise Refused(f"an array of {len(shape)} dimensions")
        if not all(type(size) is int and size >= 0 and size.bit_length() < 64 for size in shape):
            raise Refused(f"an array of shape ({', '.join(map(shown, shape))},)")
        kind = dtype.found()
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        size = kind.itemsize
        for one in shape:
            size *= one
        if not isinstance(data, bytes | bytearray) or len(data) != size:
            has = len(data) if isinstance(data, bytes | bytearray) else 0
            raise Refused(f"an array of shape {list(shape)} and type {kind} with {has} bytes")
        array = np.frombuffer(data, kind).astype(kind.newbyteorder("="))
        return array.reshape(shape, order="F" if in_columns else "C")


def _buffered(raw: object, dtype: object, shape: object, order: object = "C", *more: object) -> _Array:
    """How protocol 5 writes an array: its bytes, type, shape and order."""
    if order not in ("C", "F") or any(one is not None for one in more):
        raise Refused(f"an array in order {shown(order)}")
    made = _Array()
    made.state = (shape, dtype, order == "F", bytes(raw) if isinstance(raw, bytes | bytearray) else raw)
    return made


class _Scalar:
    """What a pickle says of one number of numpy: its type and bytes."""

    def __init__(self, dtype: object, raw: object = b"") -> None:
        self.dtype, self.raw = dtype, raw

    def found(self) -> Any:
        raw = self.raw.encode("latin1") if isinstance(self.raw, str) else self.raw
        if not isinstance(self.dtype, _Dtype) or not isinstance(raw, bytes):
            raise Refused("a number without a type")
        kind = self.dtype.found()
        if len(raw) != kind.itemsize:
            raise Refused(f"a number of type {kind} with {len(raw)} bytes")
        return np.frombuffer(raw, kind)[0].item()


def _encoded(text: object, encoding: object = "latin1") -> bytes:
    """`_codecs.encode`: how old protocols write bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise Refused(f"text in {shown(encoding)}")
    return text.encode("latin1")


def _of_pairs(given: Any = ()) -> dict[Any, Any]:
    return {_key(key): value for key, value in (given.items() if isinstance(given, dict) else given)}


def _in_tuple(*given: Any) -> tuple[Any, ...]:
    """How a tensor says its name and values."""
    return tuple(*given)


def _value_of(text: object, names: object = None, *_: object) -> Any:
    """How a tensor says its values: `eval("data", {"data": array})`. No other text is taken, and none is evaluated."""
    if text != "data" or not isinstance(names, dict) or list(names) != ["data"]:
        raise Refused("builtins.eval of something else than a tensor")
    return names["data"]


KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    **{(home, "_reconstruct"): _Array for home in ("numpy.core.multiarray", "numpy._core.multiarray")},
    **{(home, "scalar"): _Scalar for home in ("numpy.core.multiarray", "numpy._core.multiarray")},
    **{(home, "_frombuffer"): _buffered for home in ("numpy.core.numeric", "numpy._core.numeric")},
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encoded,
    ("collections", "OrderedDict"): _of_pairs,
    **{(home, "dict"): _of_pairs for home in ("builtins", "__builtin__")},
    **{(home, "tuple"): _in_tuple for home in ("builtins", "__builtin__")},
    **{(home, "eval"): _value_of for home in ("builtins", "__builtin__")},
}
"""Module and name -> what stands for it."""


class _Call:
    """What a name of a pickle becomes: it can be called, and nothing in a pickle can change it."""

    __slots__ = ("_budget", "_function")

    def __init__(self, function: Callable[..., Any], budget: _Budget) -> None:
        self._function, self._budget = function, budget

    def __call__(self, *given: Any) -> Any:
        sizes = (len(one) for one in given if isinstance(one, str | bytes | bytearray | list | tuple | dict))
        self._budget.spend(sum(size for size in sizes if size > _SMALL))
        return self._function(*given)

    def __setstate__(self, state: object) -> None:
        raise Refused("a change of a function")


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, budget: _Budget) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._budget = budget

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _Call(KNOWN[module, name], self._budget)
        except KeyError:
            raise Refused(f"{module[:60]}.{name[:60]}") from None

    def persistent_load(self, pid: object) -> Any:
        raise Refused(f"an object from elsewhere, {shown(pid)}")


def is_pickle(data: bytes) -> bool:
    """Whether bytes begin as a pickle of protocol 2 or later does."""
    return len(data) >= 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def read_pickle(path: Path) -> Any:
    """The data of a pickle; CheckpointError if it is damaged, or names something that is no data."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    return _whole(decode(data, str(path)), str(path))


def decode(data: bytes, place: str) -> Any:
    """The data of a pickle's bytes; `place` is what errors call it."""
    try:
        check(data)  # before anything is made
        budget = _Budget(_TIMES * len(data))
        return _resolved(_Reader(data, budget).load(), {}, 0, budget)
    except Refused as refused:
        raise CheckpointError(
            f"{place} holds {refused}, which is never read here; save a dict of arrays, as state_dict() gives it"
        ) from None
    except Exception as error:  # what a damaged pickle makes of the stand-ins can be anything
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise CheckpointError(f"{place} is no pickle, or a damaged one: {reason}; copy the file again") from None


def _resolved(value: Any, seen: dict[int, Any], depth: int, budget: _Budget) -> Any:
    """A value with arrays in the places of their stand-ins; what a pickle shares is shared."""
    if depth > _MAX_DEPTH:
        raise Refused(f"more than {_MAX_DEPTH} dicts or lists inside each other")
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if id(value) in seen:
        return seen[id(value)][1]
    if isinstance(value, _Array | _Scalar):
        made: Any = value.found()
        budget.spend(made.nbytes if isinstance(made, np.ndarray) else 0)
    elif isinstance(value, dict):
        made = {_key(key): _resolved(one, seen, depth + 1, budget) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        several = [_resolved(one, seen, depth + 1, budget) for one in value]
        made = tuple(several) if isinstance(value, tuple) else several
    else:
        raise Refused(f"a {type(value).__name__}")
    seen[id(value)] = (value, made)  # the first one stays alive, so that no other gets its number
    return made


def _key(key: Any) -> Any:
    if not isinstance(key, str | int | bool | float | None):
        raise Refused(f"a key that is a {type(key).__name__}")
    return key


def _whole(found: Any, place: str) -> Any:
    """A dict whose large arrays are in one piece again."""
    if not isinstance(found, dict) or SLICED not in found:
        return found
    told = found.pop(SLICED)
    try:
        for name, one in told.items():
            parts = [found.pop(part) for part in one["slices"]]
            if not all(isinstance(part, np.ndarray) for part in parts):
                raise TypeError("one is no array")
            found[name] = np.concatenate([np.ravel(part) for part in parts]).reshape(one["OriginShape"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{place} is damaged: pieces of a large array do not fit: {error}") from None
    return found
