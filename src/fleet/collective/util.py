"""`fleet.util`: small collective calls for scripts, and the rule that divides files among workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from fleet.collective.worlds import WorldName, Worlds, pack, unpack
from fleet.errors import UsageError, UsageTypeError
from fleet.roles.base import Identity

_OPS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class Util:
    """Reached as `fleet.util`. Worlds are opened when first used."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._worlds = Worlds(identity)

    def close(self) -> None:
        """Leave every world."""
        self._worlds.close()

    def barrier(self, comm_world: WorldName = "worker") -> None:
        """Return when every process of the world has come here."""
        self._worlds[comm_world].barrier()

    def all_reduce(
        self, input: Any, mode: Literal["sum", "min", "max"] = "sum", comm_world: WorldName = "worker"
    ) -> Any:
        """Combine a number, list, array or tensor over the world; everybody gets the same kind back.

        Shapes and types must be equal on all processes, or every one of them raises.
        """
        if mode not in _OPS:
            raise UsageError(f"mode must be 'sum', 'min' or 'max', got {mode!r}")
        values = _as_array(input)
        world = self._worlds[comm_world]
        described = [
            json.loads(text) for text in world.gather_bytes(json.dumps([values.dtype.str, values.shape, mode]).encode())
        ]
        if any(other != described[0] for other in described):
            listed = "; ".join(
                f"rank {rank}: {dtype} {shape} {how}" for rank, (dtype, shape, how) in enumerate(described)
            )
            raise UsageError(f"all_reduce was called with different values in the {comm_world} world: {listed}")
        tensor = torch.from_numpy(values)
        world.reduce(tensor, _OPS[mode])
        return _like(tensor, input)

    def all_gather(self, input: Any, comm_world: WorldName = "worker") -> list[Any]:
        """The values of every process of the world, by rank; they may differ in shape and kind."""
        return [unpack(data) for data in self._worlds[comm_world].gather_bytes(pack(input))]

    def get_file_shard(self, files: Sequence[str]) -> list[str]:
        """This worker's files: contiguous blocks, the first workers take one more when they do not divide evenly.

        `[a, b, c, d, e]` over two workers is `[a, b, c]` and `[d, e]`. The list must be the same on every worker.
        """
        if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
            raise UsageTypeError(f"get_file_shard takes a list of file names, got {type(files).__name__}")
        who = self._identity
        size, extra = divmod(len(files), who.num_workers)
        first = who.index * size + min(who.index, extra)
        return files[first : first + size + (who.index < extra)]

    def print_on_rank(self, message: object, rank_id: int) -> None:
        """Print on one worker only."""
        if self._identity.index == rank_id:
            print(message, flush=True)


def _as_array(value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    array = np.array(value)  # always a copy: the caller's values stay as they are
    if array.dtype == np.bool_:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise UsageError(f"all_reduce takes numbers, got {value!r}")
    return array


def _like(result: torch.Tensor, original: Any) -> Any:
    if isinstance(original, torch.Tensor):
        return result.to(device=original.device, dtype=original.dtype)
    if isinstance(original, np.ndarray):
        return result.numpy().astype(original.dtype, copy=False)
    if isinstance(original, list | tuple):
        return type(original)(result.tolist())
    return result.item()
