"""`fleet.util`: small collective calls for scripts, and the rule that divides files among workers."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from fleet.collective.world.worlds import World, WorldName, Worlds, dtype_name, pack, unpack
from fleet.errors import UsageError, UsageTypeError
from fleet.roles.base import Identity, Role

# Types that Gloo cannot reduce, and the wider one that can hold what they hold.
_WIDER = dict.fromkeys((torch.int16, torch.uint16, torch.uint32), torch.int64)
_NUMBERS = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int8, torch.uint8),
    *_WIDER,
}
_OPS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class Util:
    """Reached as `fleet.util`. Worlds are opened when first used."""

    def __init__(
        self,
        identity: Identity,
        worker_world: Callable[[], World] | None = None,
        come: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`worker_world` makes the world of the workers where it is another than Gloo's.

        `come` returns when every worker has come to a call, which it is given, or says who will not.
        """
        self._identity = identity
        self._come = come
        self._worlds = Worlds(identity, worker_world)

    def close(self) -> None:
        """Leave every world."""
        self._worlds.close()

    def barrier(self, comm_world: WorldName = "worker") -> None:
        """Return when every process of the world has come here."""
        self._together("a barrier", comm_world)
        self._worlds[comm_world].barrier()

    def come(self, call: str) -> None:
        """Return when every worker has come to this call of the user's; an error names who goes on without it."""
        if self._identity.role is Role.WORKER and self._identity.num_workers > 1:
            self._come(call)

    def all_reduce(
        self, input: Any, mode: Literal["sum", "min", "max"] = "sum", comm_world: WorldName = "worker"
    ) -> Any:
        """Combine a number, list, array or tensor over the world; everybody gets the same kind back.

        Shapes and types must be equal on all processes, or every one of them raises.
        """
        if mode not in _OPS:
            raise UsageError(f"mode must be 'sum', 'min' or 'max', got {mode!r}")
        values = _as_tensor(input)
        self._together("fleet.util.all_reduce()", comm_world)
        world = self._worlds[comm_world]
        own = json.dumps([dtype_name(values.dtype), values.shape, mode]).encode()
        described = [json.loads(text) for text in world.gather_bytes(own)]
        if any(other != described[0] for other in described):
            listed = "; ".join(
                f"rank {rank}: {dtype} {shape} {how}" for rank, (dtype, shape, how) in enumerate(described)
            )
            raise UsageError(f"all_reduce was called with different values in the {comm_world} world: {listed}")
        values = values.to(_WIDER.get(values.dtype, values.dtype))
        world.reduce(values, _OPS[mode])
        return _like(values, input)

    def mean_(self, values: torch.Tensor) -> None:
        """Replace a tensor by its mean over the workers, in place. Shapes are not compared: for one tensor per step."""
        if self._identity.num_workers == 1:  # it may lie on a GPU, which nobody has to wait for
            return
        self.sum_(values)
        values /= self._identity.num_workers

    def sum_(self, values: torch.Tensor) -> None:
        """Replace a tensor by its sum over the workers, in place. Shapes are not compared."""
        host = values if values.device.type == "cpu" else values.cpu()
        self._worlds["worker"].reduce(host, dist.ReduceOp.SUM)
        if host is not values:
            values.copy_(host)

    def all_gather(self, input: Any, comm_world: WorldName = "worker") -> list[Any]:
        """The values of every process of the world, by rank; they may differ in shape and kind."""
        self._together("fleet.util.all_gather()", comm_world)
        return [unpack(data) for data in self._worlds[comm_world].gather_bytes(pack(input))]

    def _together(self, call: str, comm_world: WorldName) -> None:
        if comm_world == "worker":
            self.come(call)

    def gather_at(self, topic: str, input: Any) -> list[Any]:
        """`all_gather` of the workers under a name, so that one that was started again finds it."""
        return [unpack(data) for data in self._worlds["worker"].gather_at(topic, pack(input))]

    def knows(self, ahead: int = 1) -> bool:
        """Whether this worker was told in a former life what the `ahead`th call of the workers from here will give."""
        return self._worlds["worker"].knows(ahead)

    def get_file_shard(self, files: Sequence[object]) -> list[str]:
        """This worker's files: contiguous blocks, the first workers take one more when they do not divide evenly.

        `[a, b, c, d, e]` over two workers is `[a, b, c]` and `[d, e]`. The list must be the same on every worker.
        """
        if isinstance(files, str) or not isinstance(files, Sequence):
            raise UsageTypeError(f"get_file_shard takes a list of file names, got {type(files).__name__}")
        names = [file for file in files if isinstance(file, str)]
        if len(names) < len(files):
            odd = next(file for file in files if not isinstance(file, str))
            raise UsageTypeError(f"get_file_shard takes names as text, got {odd!r} among them")
        if self._identity.role is not Role.WORKER:
            raise UsageError("get_file_shard divides files among workers; this process is a server")
        who = self._identity
        size, extra = divmod(len(names), who.num_workers)
        first = who.index * size + min(who.index, extra)
        return names[first : first + size + (who.index < extra)]

    def print_on_rank(self, message: object, rank_id: int) -> None:
        """Print on one worker only."""
        if self._identity.role is Role.WORKER and self._identity.index == rank_id:
            print(message, flush=True)


def _as_tensor(value: Any) -> torch.Tensor:
    """Always a copy: the caller's values stay as they are. True and False count as 1 and 0."""
    try:
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError):
        raise UsageError(f"all_reduce takes numbers, got {value!r}") from None
    dtype = torch.int64 if tensor.dtype is torch.bool else tensor.dtype
    if dtype not in _NUMBERS:
        raise UsageError(f"all_reduce takes numbers that Gloo can add, got {dtype_name(dtype)}")
    return tensor.to("cpu", dtype, copy=True, memory_format=torch.contiguous_format)


def _like(result: torch.Tensor, original: Any) -> Any:
    if isinstance(original, torch.Tensor):
        return result.to(device=original.device, dtype=original.dtype)
    if isinstance(original, np.ndarray):
        return result.numpy().astype(original.dtype, copy=False)
    if isinstance(original, list | tuple):
        return type(original)(result.tolist())
    return result.item()
