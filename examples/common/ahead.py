"""Batches on the device before they are needed, and where the one in hand is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import fleet


class Ahead:
    """The batches of a shard on `fleet.device`; on a GPU the next is copied while this one is trained on.

    Copies run on a stream of their own, from pinned memory. For `fleet.Checkpoint(data=...)`: the position is that
    behind the batch in hand, not behind the one that was read ahead.
    """

    def __init__(self, shard: fleet.data.Shard) -> None:
        self.shard = shard
        self._stream = torch.cuda.Stream() if fleet.device.type == "cuda" else None
        self._in_hand: Any = None

    def state_dict(self) -> Any:
        return self.shard.state_dict() if self._in_hand is None else self._in_hand

    def load_state_dict(self, state: Any) -> None:
        self._in_hand = None
        self.shard.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        if self._stream is None:
            for batch in self.shard:
                yield tree_map(_to_device, batch)
            return
        ready: Any = None
        for batch in self.shard:
            state = self.shard.state_dict()
            coming = self._copied(batch), state
            if ready is not None:
                yield self._taken(*ready)
            ready = coming
        if ready is not None:
            yield self._taken(*ready)
        self._in_hand = None

    def _copied(self, batch: Any) -> Any:
        assert self._stream is not None
        with torch.cuda.stream(self._stream):
            return tree_map(_to_device, batch)

    def _taken(self, batch: Any, state: Any) -> Any:
        current = torch.cuda.current_stream()
        assert self._stream is not None
        current.wait_stream(self._stream)
        for one in tree_leaves(batch):
            if isinstance(one, torch.Tensor):
                one.record_stream(current)  # its memory is not the copying stream's again before it was trained on
        self._in_hand = state
        return batch


def _to_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.device.type == fleet.device.type:
        return value
    if fleet.device.type == "cuda" and not value.is_pinned():
        value = value.pin_memory()
    return value.to(fleet.device, non_blocking=True)
