"""Which keys have a slot in a cache of rows, kept where the rows are, as in GPU memory (ADR 40).

A key belongs to one set of `WAYS` ways, by its hash, and every way has a slot of its own; so keys are found, and ways
for new ones chosen, by a few torch operations on all keys of a batch at once, the same on a CPU. Of a set the key goes
that was used least, of those the one that was used longest ago; a new key begins where the one that went had ended, and
no key is more than `MOST` uses ahead of its set, so that what is no longer used goes in the end. Keys of a call that
somebody still works with never go: where a set has no others, all sets are cut in two, and slots stay what they are.

Legend: U keys of a batch, M those of them that are not there, S sets, W ways.
"""

from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

WAYS = 32
MOST = 8
EMPTY = -1
"""Stands for the call that used a way last, where none has."""
FREE, TAKEN, FULL = range(3)
"""The way that a new key gets had no key, or one that goes; or its set has no way to give."""

_FACTORS = (-7046029254386353131, -4658895280553007687)  # odd, of 64 bits, without a pattern
_LAST = torch.iinfo(torch.int64).max


class SlotAssignment(NamedTuple):
    """Where the keys of a batch are or will be."""

    keys: torch.Tensor
    sets: torch.Tensor
    ways: torch.Tensor
    """The way of each key, counted through all sets [U]."""
    new: torch.Tensor
    """Which keys are not there [M]; the rest has one entry for each of these."""
    new_ways: torch.Tensor
    gone_slots: torch.Tensor
    facts: torch.Tensor
    """[3, M]: those keys, the ones that they drive out, and what the way was worth: `kinds_of` tells."""


def kinds_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """FREE, TAKEN or FULL, from the values of a plan, in host memory."""
    kinds = np.where((values & 0xFFFFFFFF) == 0xFFFFFFFF, FREE, TAKEN)  # EMPTY has all of these bits
    return np.where(values == _LAST, FULL, kinds)


class SlotSets:
    """Keys and their slots. One call at a time; results belong to the stream that the call was made on."""

    def __init__(self, capacity: int, device: torch.device, *, kernels: bool | None = None) -> None:
        """`kernels`: whether to use those of `slot_kernels`; None: on a GPU, where Triton is there."""
        self._kernels = _kernels() if (device.type == "cuda" if kernels is None else kernels) else None
        num_sets = -(-capacity // WAYS)
        self._keys = torch.zeros((num_sets, WAYS), dtype=torch.int64, device=device)
        self._slots = torch.arange(num_sets * WAYS, dtype=torch.int32, device=device).view(num_sets, WAYS)
        self._calls = torch.full_like(self._slots, EMPTY)
        self._uses = torch.zeros_like(self._slots)

    @property
    def num_slots(self) -> int:
        """How many slots there are, counted from 0."""
        return self._slots.numel()

    @property
    def nbytes(self) -> int:
        """The bytes of device memory in use."""
        return sum(one.nbytes for one in (self._keys, self._slots, self._calls, self._uses))

    def plan(self, keys: torch.Tensor, now: int, oldest: int) -> SlotAssignment:
        """Find distinct keys, and ways for those that are not there; keys whose last call was `oldest` or later stay.

        `now`: this call, larger than any before. Waits for the device once, to know how many are missing.
        """
        if self._kernels is not None:
            return self._plan_by(self._kernels, keys, now, oldest)
        sets = _sets_of(keys, len(self._keys))
        is_here = (self._keys.index_select(0, sets) == keys.unsqueeze(1)) & (self._calls.index_select(0, sets) != EMPTY)
        is_found, way = is_here.max(dim=1)
        ways = torch.add(way, sets, alpha=WAYS)
        # At once, so that no key of this call goes for another; one that was not found changes nothing.
        self._calls.view(-1).scatter_reduce_(0, ways, torch.where(is_found, now, EMPTY).int(), "amax")
        new = (~is_found).nonzero().squeeze(1)
        new_sets, order = sets.index_select(0, new).sort(stable=True)
        new = new.index_select(0, order)
        # The first new key of a set gets its least way, the second the next one, and so on.
        rank = torch.arange(len(new), device=new.device) - torch.searchsorted(new_sets, new_sets)
        nth = rank.clamp(max=WAYS - 1).unsqueeze(1)
        calls = self._calls.index_select(0, new_sets)
        value = torch.add(calls, self._uses.index_select(0, new_sets).long(), alpha=1 << 32)
        least, order = value.masked_fill_(calls >= oldest, _LAST).sort(dim=1, stable=True)
        values = least.gather(1, nth).squeeze(1).masked_fill_(rank >= WAYS, _LAST)
        new_ways = torch.add(order.gather(1, nth).squeeze(1), new_sets, alpha=WAYS)
        ways.scatter_(0, new, new_ways)
        gone_keys = self._keys.view(-1).index_select(0, new_ways)
        gone_slots = self._slots.view(-1).index_select(0, new_ways).long()
        facts = torch.stack([keys.index_select(0, new), gone_keys, values])
        return SlotAssignment(keys, sets, ways, new, new_ways, gone_slots, facts)

    def _plan_by(self, kernels: ModuleType, keys: torch.Tensor, now: int, oldest: int) -> SlotAssignment:
        sets, ways, new = kernels.find(keys, self._keys, self._calls, now, _FACTORS, EMPTY)
        found = kernels.choose(keys, sets, ways, new, self._index, oldest, _LAST)
        return SlotAssignment(keys, sets, ways, *found)

    @property
    def _index(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._keys, self._slots, self._calls, self._uses

    def take(self, plan: SlotAssignment, now: int) -> torch.Tensor:
        """Carry out a plan without FULL ways, in the call that it was made in; returns the slots of all keys."""
        if self._kernels is not None:
            found: torch.Tensor = self._kernels.take(plan.keys, plan.sets, plan.ways, self._index, now, MOST)
            return found
        self._keys.view(-1).scatter_(0, plan.new_ways, plan.facts[0])
        uses = self._uses.view(-1)
        most = self._uses.index_select(0, plan.sets).amin(dim=1) + MOST
        uses.scatter_(0, plan.ways, torch.minimum(uses.index_select(0, plan.ways) + 1, most))
        self._calls.view(-1).index_fill_(0, plan.ways, now)
        return self._slots.view(-1).index_select(0, plan.ways).long()

    def grow(self) -> None:
        """Make twice as many sets: some keys of each go to a new one, with their slots."""
        num_sets, num_slots = len(self._keys), self.num_slots
        here = torch.arange(num_sets, device=self._keys.device).unsqueeze(1)
        moves = _sets_of(self._keys.view(-1), 2 * num_sets).view(num_sets, WAYS) != here
        fresh = torch.arange(num_slots, 2 * num_slots, dtype=torch.int32, device=here.device).view(num_sets, WAYS)
        self._slots = torch.cat([torch.where(moves, fresh, self._slots), torch.where(moves, self._slots, fresh)])
        self._calls = torch.cat([self._calls.masked_fill(moves, EMPTY), self._calls.masked_fill(~moves, EMPTY)])
        self._uses = torch.cat([self._uses.masked_fill(moves, 0), self._uses.masked_fill(~moves, 0)])
        self._keys = self._keys.repeat(2, 1)

    def all(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Every key, and its slot."""
        used = (self._calls.view(-1) != EMPTY).nonzero().squeeze(1)
        return self._keys.view(-1)[used], self._slots.view(-1)[used].long()


def _sets_of(keys: torch.Tensor, num_sets: int) -> torch.Tensor:
    """The set of each key: twice a product with an odd number, its upper bits brought down; ids often come in steps."""
    for factor in _FACTORS:
        keys = keys * factor
        keys = keys ^ (keys >> 32)
    return keys % num_sets


@cache
def _kernels() -> ModuleType | None:
    """The kernels of Triton, where it is installed."""
    from fleet.ps.hot import slot_kernels  # Triton takes a while to be imported, and only a GPU needs it

    return slot_kernels if slot_kernels.IS_THERE else None
