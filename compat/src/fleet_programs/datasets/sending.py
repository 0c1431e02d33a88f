"""All-to-all of bytes: what each worker sends to each, where an all-gather would send all of it to everybody."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fleet.collective.world.worlds import GlooWorld

if TYPE_CHECKING:
    from fleet.collective.world.util import Util

Bytes = npt.NDArray[np.uint8]


def _own_part(told: bytes, rank: int) -> Bytes:
    """What one worker sends to this one, of all that it sends."""
    head, _, body = told.partition(b"\n")
    sizes = json.loads(head)
    begin = sum(sizes[:rank])
    return np.frombuffer(body, np.uint8)[begin : begin + sizes[rank]]


def exchange_bytes(util: Util, parts: Sequence[Sequence[Bytes]]) -> list[Bytes]:
    """What every worker sends to this one, by worker; `parts[w]` are the pieces that go, joined, to worker `w`.

    Every worker calls it, in the same order as its other collective calls. What comes shares one buffer.
    """
    world = util._worlds["worker"]
    assert len(parts) == world.size, f"{len(parts)} parts for {world.size} workers"
    sent = np.concatenate([np.empty(0, dtype=np.uint8), *(piece for part in parts for piece in part)])
    sizes = [sum(len(piece) for piece in part) for part in parts]
    if not isinstance(world, GlooWorld):
        return [
            _own_part(told, world.rank)
            for told in world.gather_bytes(json.dumps(sizes).encode() + b"\n" + sent.tobytes())
        ]
    coming = torch.empty(world.size, dtype=torch.int64)
    world._wait(world._group.alltoall_base(coming, torch.tensor(sizes), [], []), "all_to_all")
    lengths: list[int] = coming.tolist()
    received = torch.empty(sum(lengths), dtype=torch.uint8)
    world._wait(world._group.alltoall_base(received, torch.from_numpy(sent), lengths, sizes), "all_to_all")
    return np.split(received.numpy(), np.cumsum(lengths)[:-1])
