"""What `slot_sets` does with all keys of a batch, as four kernels of Triton instead of forty operations of torch.

The same results, for a GPU where Triton is there: each operation of torch is a launch, at which the thread beside the
model and the one that trains wait for each other's Python (ADR 46). `slot_sets` says what is done, and why.

Legend: U keys of a batch, M those of them that are not there, S sets, W ways.
"""

from __future__ import annotations

from typing import Any

import torch

try:
    import triton  # type: ignore[import-not-found, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # it comes with torch for GPUs
    triton = None

IS_THERE = triton is not None
"""Whether there is Triton; without it nothing here can be called."""
FEW, MANY = 4, 32
"""Keys of one program: where each is compared with 32 x 32 values, and elsewhere."""


_DIFFERS = ("num_keys", "num_new", "now", "oldest")
"""Arguments that are another number in every call: Triton would compile again for 1, and for multiples of 16."""


def _kernel(function: Any) -> Any:
    """A kernel of Triton, which reads its text."""
    return triton.jit(function, do_not_specialize=_DIFFERS) if IS_THERE else function


@_kernel  # type: ignore[untyped-decorator, unused-ignore]
def _find(  # type: ignore[no-untyped-def]
    keys,
    there,
    calls,
    sets,
    ways,
    is_new,
    num_keys,
    num_sets,
    now,
    first_factor,
    second_factor,
    WAYS: tl.constexpr,  # noqa: N803
    EMPTY: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """The set of each key [U], its way if it has one, and whether it has none; the ways that were found are marked."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_one = at < num_keys
    key = tl.load(keys + at, is_one, 0)
    hashed = key * first_factor
    hashed = hashed ^ (hashed >> 32)
    hashed = hashed * second_factor
    hashed = hashed ^ (hashed >> 32)
    own = hashed % num_sets
    own = tl.where(own < 0, own + num_sets, own)  # as Python and torch have it
    way = tl.arange(0, WAYS)[None, :]
    places = own[:, None] * WAYS + way
    is_here = tl.load(there + places, is_one[:, None], 0) == key[:, None]
    is_here = is_here & (tl.load(calls + places, is_one[:, None], EMPTY) != EMPTY)
    found = tl.max(is_here.to(tl.int32), 1)
    place = own * WAYS + tl.sum(tl.where(is_here, way, 0), 1)
    tl.store(sets + at, own, is_one)
    tl.store(ways + at, place, is_one)
    tl.store(is_new + at, (found == 0).to(tl.int8), is_one)
    tl.store(calls + place, now, is_one & (found != 0))


@_kernel  # type: ignore[untyped-decorator, unused-ignore]
def _choose(  # type: ignore[no-untyped-def]
    keys,
    new,
    new_sets,
    there,
    slots,
    calls,
    uses,
    ways,
    new_ways,
    gone_slots,
    facts,
    num_new,
    oldest,
    last,
    WAYS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """The way of each new key [M], sorted by set: the n-th of a set gets the n-th least used; and who goes for it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_one = at < num_new
    own = tl.load(new_sets + at, is_one, 0)
    back = at[:, None] - 1 - tl.arange(0, WAYS)[None, :]
    is_same = tl.load(new_sets + back, is_one[:, None] & (back >= 0), -1) == own[:, None]
    rank = tl.sum(is_same.to(tl.int32), 1)
    way = tl.arange(0, WAYS)
    places = own[:, None] * WAYS + way[None, :]
    call = tl.load(calls + places, is_one[:, None], 0)
    value = tl.load(uses + places, is_one[:, None], 0).to(tl.int64) * 4294967296 + call
    value = tl.where(call >= oldest, last, value)
    is_less = value[:, None, :] < value[:, :, None]
    is_less = is_less | ((value[:, None, :] == value[:, :, None]) & (way[None, None, :] < way[None, :, None]))
    order = tl.sum(is_less.to(tl.int32), 2)
    is_chosen = order == tl.minimum(rank, WAYS - 1)[:, None]
    place = own * WAYS + tl.sum(tl.where(is_chosen, way[None, :], 0), 1)
    worth = tl.sum(tl.where(is_chosen, value, 0), 1)
    which = tl.load(new + at, is_one, 0)
    tl.store(ways + which, place, is_one)
    tl.store(new_ways + at, place, is_one)
    tl.store(gone_slots + at, tl.load(slots + place, is_one, 0).to(tl.int64), is_one)
    tl.store(facts + at, tl.load(keys + which, is_one, 0), is_one)
    tl.store(facts + num_new + at, tl.load(there + place, is_one, 0), is_one)
    tl.store(facts + 2 * num_new + at, tl.where(rank >= WAYS, last, worth), is_one)


@_kernel  # type: ignore[untyped-decorator, unused-ignore]
def _count(  # type: ignore[no-untyped-def]
    sets,
    ways,
    slots,
    uses,
    counts,
    found,
    num_keys,
    MOST: tl.constexpr,  # noqa: N803
    WAYS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """How often each key [U] will have been used, and its slot; nothing is written yet that another key reads."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_one = at < num_keys
    own, place = tl.load(sets + at, is_one, 0), tl.load(ways + at, is_one, 0)
    places = own[:, None] * WAYS + tl.arange(0, WAYS)[None, :]
    least = tl.min(tl.load(uses + places, is_one[:, None], 0), 1)
    tl.store(counts + at, tl.minimum(tl.load(uses + place, is_one, 0) + 1, least + MOST), is_one)
    tl.store(found + at, tl.load(slots + place, is_one, 0).to(tl.int64), is_one)


@_kernel  # type: ignore[untyped-decorator, unused-ignore]
def _write(  # type: ignore[no-untyped-def]
    keys,
    ways,
    counts,
    there,
    calls,
    uses,
    num_keys,
    now,
    BLOCK: tl.constexpr,  # noqa: N803
):
    """Give each key [U] its way."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_one = at < num_keys
    place = tl.load(ways + at, is_one, 0)
    tl.store(there + place, tl.load(keys + at, is_one, 0), is_one)
    tl.store(uses + place, tl.load(counts + at, is_one, 0), is_one)
    tl.store(calls + place, now, is_one)


def find(
    keys: torch.Tensor, there: torch.Tensor, calls: torch.Tensor, now: int, factors: tuple[int, int], empty: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The set and the way of each key, and which have none; the ways of the others are marked with this call."""
    num_sets, num_ways = there.shape
    sets, ways = torch.empty_like(keys), torch.empty_like(keys)
    is_new = torch.empty_like(keys, dtype=torch.int8)
    arguments = (keys, there, calls, sets, ways, is_new, len(keys), num_sets, now, *factors)
    _launch(_find, len(keys), MANY, *arguments, WAYS=num_ways, EMPTY=empty)
    return sets, ways, is_new.nonzero().squeeze(1)


def choose(
    keys: torch.Tensor,
    sets: torch.Tensor,
    ways: torch.Tensor,
    new: torch.Tensor,
    index: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    oldest: int,
    last: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The new keys by set, their ways, which are put into `ways`, the slots of these, and [3, M] as in a plan."""
    there, slots, calls, uses = index
    new_sets, order = sets.index_select(0, new).sort(stable=True)
    new = new.index_select(0, order)
    new_ways, gone_slots = torch.empty_like(new), torch.empty_like(new)
    facts = new.new_empty(3, len(new))
    arguments = (keys, new, new_sets, there, slots, calls, uses, ways, new_ways, gone_slots, facts, len(new))
    _launch(_choose, len(new), FEW, *arguments, oldest, last, WAYS=there.shape[1])
    return new, new_ways, gone_slots, facts


def take(
    keys: torch.Tensor,
    sets: torch.Tensor,
    ways: torch.Tensor,
    index: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    now: int,
    most: int,
) -> torch.Tensor:
    """Give keys their ways; the slots of these."""
    there, slots, calls, uses = index
    counts, found = torch.empty_like(keys, dtype=torch.int32), torch.empty_like(keys)
    _launch(_count, len(keys), MANY, sets, ways, slots, uses, counts, found, len(keys), MOST=most, WAYS=there.shape[1])
    _launch(_write, len(keys), 8 * MANY, keys, ways, counts, there, calls, uses, len(keys), now)
    return found


def _launch(kernel: Any, count: int, block: int, *arguments: Any, **constants: int) -> None:
    """One program for each `block` of `count` things."""
    if count:
        # Triton launches on the current device, wherever the tensors are.
        with torch.cuda.device_of(arguments[0]):
            kernel[(-(-count // block),)](*arguments, **constants, BLOCK=block)
