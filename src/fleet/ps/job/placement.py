"""Placement of dense parameters: into which blocks each is cut, and which server holds each block.

Every worker computes the placement by itself and the servers compare, so all of it depends on names, shapes and the
number of servers alone.

A dispatcher decides where blocks go. It is a function, or an object with a method `dispatch`, that takes the names of
all blocks in order and the number of servers and returns one server for each:

>>> def by_length(names, num_servers):
...     return [len(name) % num_servers for name in names]
>>> [(block.parameter, block.server) for block in place([("a", (3,), 0), ("bb", (3,), 0)], 2, by_length)]
[('a', 1), ('bb', 0)]
"""

import inspect
import zlib
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Protocol

from fleet.errors import UsageError, UsageTypeError
from fleet.json_form import shown
from fleet.ps.job.checks import checked
from fleet.ps.job.dense_spec import DenseBlock
from fleet.strategy.check import Many, RefusedError, Whole

MIN_BLOCK = 8192

Dispatch = Callable[[Sequence[str], int], Iterable[int]]


class Dispatcher(Protocol):
    """Decides which server holds each block."""

    def dispatch(self, names: Sequence[str], num_servers: int) -> Iterable[int]:
        """One server, from 0, for each name; the same answer in every worker."""


class RoundRobin(Dispatcher):
    """One server after the other, over all blocks in order: the most even number of blocks."""

    def dispatch(self, names: Sequence[str], num_servers: int) -> Sequence[int]:
        return [index % num_servers for index in range(len(names))]


class HashName(Dispatcher):
    """CRC-32 of the block's name in UTF-8, modulo the number of servers: other parameters do not move it."""

    def dispatch(self, names: Sequence[str], num_servers: int) -> Sequence[int]:
        return [zlib.crc32(name.encode()) % num_servers for name in names]


def cut(shape: Sequence[int], num_servers: int, min_block: int = MIN_BLOCK) -> list[tuple[int, int]]:
    """Cut a flattened parameter into at most `num_servers` blocks of at least `min_block` elements each.

    Blocks are (begin, end), equal in size but for the last, which is smaller, and consist of whole rows if the
    parameter has two dimensions or more. A parameter too small to be cut is one block; one without elements has none.

    >>> cut((100, 300), 4)
    [(0, 10200), (10200, 20400), (20400, 30000)]
    """
    dims = checked("a dense parameter", "shape", shape, Many(Whole(least=0)))
    checked("placement", "num_servers", num_servers, Whole(least=1))
    checked("placement", "min_block", min_block, Whole(least=1))
    size = prod(dims)
    if size == 0:
        return []
    block = _up(size, min(num_servers, max(1, size // min_block)))
    if len(dims) >= 2:
        row = prod(dims[1:])
        block = _up(block, row) * row
    return [(begin, min(begin + block, size)) for begin in range(0, size, block)]


def block_names(parameter: str, count: int) -> list[str]:
    """The names of a parameter's blocks: its own for a single one, else `weight.block0`, `weight.block1`, ..."""
    return [parameter] if count == 1 else [f"{parameter}.block{index}" for index in range(count)]


def place(
    parameters: Sequence[tuple[str, Sequence[int], int]],
    num_servers: int,
    dispatcher: Dispatcher | Dispatch | None = None,
    *,
    min_block: int = MIN_BLOCK,
    is_cut: bool = True,
) -> tuple[DenseBlock, ...]:
    """Cut parameters, given as (name, shape, group), and place the blocks; in the order of parameters, then elements.

    The default dispatcher is `RoundRobin()`. `is_cut=False` keeps each parameter whole.
    """
    pieces = [cut(shape, num_servers if is_cut else 1, min_block) for _, shape, _ in parameters]
    names = [
        name for (own, _, _), spans in zip(parameters, pieces, strict=True) for name in block_names(own, len(spans))
    ]
    servers = iter(_dispatched(RoundRobin() if dispatcher is None else dispatcher, names, num_servers))
    return tuple(
        DenseBlock(name, begin, end, next(servers), group)
        for (name, _, group), spans in zip(parameters, pieces, strict=True)
        for begin, end in spans
    )


def _dispatched(dispatcher: Dispatcher | Dispatch, names: list[str], num_servers: int) -> tuple[int, ...]:
    """The dispatcher's answer, checked: it may be the user's own."""
    what = getattr(dispatcher, "__name__", type(dispatcher).__name__)
    if isinstance(dispatcher, type):
        raise UsageTypeError(f"dispatcher must be an object or a function, got the class {what}; give {what}()")
    function = getattr(dispatcher, "dispatch", dispatcher)
    if not callable(function):
        raise UsageTypeError(f"dispatcher must be callable or have a method dispatch, got {shown(dispatcher)}")
    try:
        inspect.signature(function).bind(names, num_servers)
    except TypeError:
        raise UsageTypeError(f"dispatcher {what} must take two arguments, names and num_servers") from None
    except ValueError:
        pass  # written in C without a signature: the call will tell
    answer: object = function(list(names), num_servers)
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes):
        answer = list(answer)  # a numpy array is no Sequence
    try:
        servers = Many(Whole(least=0, most=num_servers - 1))(answer)
    except RefusedError as refused:
        name = names[int(refused.where[1:-1])] if refused.where[1:-1].isdigit() else ""
        of = f"for block {name!r}" if name else "for the blocks"
        raise UsageError(
            f"dispatcher {what} must return servers, each {Whole(least=0, most=num_servers - 1).wants}, "
            f"got {shown(refused.value)} {of}"
        ) from None
    if len(servers) != len(names):
        raise UsageError(
            f"dispatcher {what} must return one server per block, got {len(servers)} for {len(names)} blocks"
        )
    return servers


def _up(size: int, parts: int) -> int:
    return -(-size // parts)
