"""Keys of a batch: distinct ones, their servers, and the way back. Torch tensors over `fleet._native`.

A pull is `route`, one request per server, and an index with the inverse:

>>> import torch
>>> batch = torch.tensor([7, 3, 7, 9])
>>> parts = route(batch, num_servers=2)
>>> answers = [10.0 * piece for piece in parts.pieces()]
>>> torch.cat(answers)[parts.inverse]
tensor([70., 30., 70., 90.])

`unique`, `split` and `merge` are its steps, for keys that are distinct already or rows that must keep an order.

Tensors lie in CPU memory and are neither copied nor converted on the way in, except those that torch conjugates or
negates lazily; results own their memory.

Inputs must not change while a call runs. It releases the GIL and reads them more than once: a write from another thread
in the meantime gives a wrong result or a crash.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from fleet import _native
from fleet.ps.job.staging import download, upload, wait_for


class Split(NamedTuple):
    """Keys grouped by server: `grouped[offsets[s]:offsets[s + 1]]` are server s's, and `grouped == keys[order]`."""

    grouped: torch.Tensor
    order: torch.Tensor
    offsets: torch.Tensor

    def pieces(self) -> list[torch.Tensor]:
        """The keys of each server, as views of `grouped`."""
        ends = self.offsets.tolist()
        return [self.grouped[start:end] for start, end in pairwise(ends)]


class Route(NamedTuple):
    """Distinct keys grouped by server: `grouped[offsets[s]:offsets[s + 1]]` are server s's, in ascending order.

    `grouped[inverse] == keys`: rows that the servers answer, one server's after the other's, need no `merge`.
    """

    grouped: torch.Tensor
    inverse: torch.Tensor
    offsets: torch.Tensor
    counts: torch.Tensor | None  # uint32: how often each of `grouped` occurs

    def pieces(self) -> list[torch.Tensor]:
        """The keys of each server, as views of `grouped`."""
        ends = self.offsets.tolist()
        return [self.grouped[start:end] for start, end in pairwise(ends)]


def unique(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distinct keys and where each key is among them, as `torch.unique(return_inverse=True)` does.

    Keys are int64, of any shape; the distinct ones come in ascending order, the inverse has the shape of `keys`.

    >>> unique(torch.tensor([[5, -1], [5, 5]]))
    (tensor([-1,  5]), tensor([[1, 0],
            [1, 1]]))
    """
    _check_cpu(keys, "keys")
    distinct, inverse = _native.unique(keys.resolve_neg().reshape(-1))
    return torch.from_numpy(distinct), torch.from_numpy(inverse).view(keys.shape)


def split(keys: torch.Tensor, num_servers: int) -> Split:
    """Group 1-D int64 `keys` by the server that holds them, in input order within a server.

    Where a key lives depends on the key and the number of servers alone, in every version (csrc/keys/hash.h).

    >>> grouped, order, offsets = split(torch.tensor([1, 2, 3, 4]), num_servers=1)
    >>> grouped, order, offsets
    (tensor([1, 2, 3, 4]), tensor([0, 1, 2, 3]), tensor([0, 4]))
    """
    _check_cpu(keys, "keys")
    return Split(*map(torch.from_numpy, _native.split(keys.resolve_neg(), num_servers)))


def route(keys: torch.Tensor, num_servers: int, counts: bool = False) -> Route:
    """Group the distinct keys by the server that holds them: `unique` and `split` in one, and no `merge` afterwards.

    Keys are int64, of any shape, which the inverse takes. With `counts`, also say how often each distinct key occurs.

    >>> grouped, inverse, offsets, counts = route(torch.tensor([7, 3, 7, 9]), num_servers=1, counts=True)
    >>> grouped, inverse, offsets
    (tensor([3, 7, 9]), tensor([1, 0, 1, 2]), tensor([0, 3]))
    >>> counts
    tensor([1, 2, 1], dtype=torch.uint32)
    """
    _check_cpu(keys, "keys")
    grouped, inverse, offsets, times = _native.route(keys.resolve_neg().reshape(-1), num_servers, counts)
    return Route(
        torch.from_numpy(grouped),
        torch.from_numpy(inverse).view(keys.shape),
        torch.from_numpy(offsets),
        None if times is None else torch.from_numpy(times),
    )


def server_of(keys: torch.Tensor, num_servers: int) -> torch.Tensor:
    """Return the server that holds each of the 1-D int64 `keys`.

    >>> server_of(torch.tensor([10, 20, 30]), num_servers=1)
    tensor([0, 0, 0])
    """
    _check_cpu(keys, "keys")
    return torch.from_numpy(_native.server_of(keys.resolve_neg(), num_servers))


def merge(pieces: Sequence[torch.Tensor], order: torch.Tensor) -> torch.Tensor:
    """Put the rows that the servers answered back into the order of the keys: the inverse of `split`.

    Piece s holds one row per key of server s, shape [n] or [n, width]; `order` is the one that `split` gave
    and names each row of the result once. No gradient flows through.

    >>> merge([torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 2.0], [3.0, 3.0]])], torch.tensor([2, 0, 1]))
    tensor([[2., 2.],
            [3., 3.],
            [1., 1.]])
    """
    for number, piece in enumerate(pieces):
        _check_cpu(piece, f"pieces[{number}]")
    _check_cpu(order, "order")
    order = order.resolve_neg()
    rows = [piece.detach().resolve_conj().resolve_neg() for piece in pieces]
    for number, row in enumerate(rows):
        if row.dtype != rows[0].dtype:
            raise TypeError(f"pieces[{number}] and pieces[0] differ in dtype: {row.dtype} and {rows[0].dtype}")
    carrier = _carrier(rows[0].dtype) if rows else None
    if carrier is None:
        return torch.from_numpy(_native.merge(rows, order))
    return torch.from_numpy(_native.merge([row.view(carrier) for row in rows], order)).view(rows[0].dtype)


def _carrier(dtype: torch.dtype) -> torch.dtype | None:
    """The integers as which rows travel if numpy lacks their type: moving them needs their size only."""
    if dtype == torch.bfloat16:
        return torch.int16
    if dtype.is_floating_point and dtype.itemsize == 1:
        return torch.uint8
    return None


def _check_cpu(tensor: torch.Tensor, name: str) -> None:
    """Raise for what is not a CPU tensor: a hidden copy from a device would stall it on every step."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} must lie in CPU memory, got a tensor on {tensor.device}; call .cpu() on it first")


def route_there(
    sources: Sequence[torch.Tensor], device: torch.device, *, counts: bool = False, keys_stay: bool = False
) -> tuple[Route, torch.Tensor]:
    """`route` of all ids, one source after the other, for one server, and the inverse on the device.

    The route's own inverse is empty. Sources may lie anywhere; the keys come back to host memory, unless they stay.
    """
    parts = [upload(source.detach().reshape(-1), device) for source in sources]
    ids = parts[0] if len(parts) == 1 else torch.cat(parts)
    keys, inverse, *times = torch.unique(ids, return_inverse=True, return_counts=counts)
    grouped, *occurrences = (one if keys_stay else download(one) for one in (keys, *times))
    if not keys_stay:
        wait_for(device)
    offsets = torch.tensor([0, len(grouped)])
    nothing = torch.empty(0, dtype=torch.int64)
    return Route(grouped, nothing, offsets, occurrences[0].to(torch.uint32) if counts else None), inverse
