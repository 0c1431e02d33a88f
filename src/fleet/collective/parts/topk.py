"""Deep gradient compression: of a large gradient only the values farthest from zero are sent, the rest waits.

While backward runs, each bucket of DistributedDataParallel passes through `TopK.reduce`:

    a step before the ramp begins                           mean of the whole bucket, as always
    parameters of at least 16384 float32 values             the top share of what is unsent: places and values
    all others in the bucket                                their mean, in one all-reduce

Places and values of a bucket travel in one tensor; all workers send equally many. Their mean replaces the gradient, and
is zero where nobody sent anything. Every worker adds the same values in the same order, so workers stay equal bit by
bit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from fleet.collective.parts.own_bucket import Bucket, OwnBucket
from fleet.collective.parts.unsent import Correction, Unsent, share
from fleet.collective.world.worlds import all_gather
from fleet.errors import CheckpointError, NotReadyError
from fleet.optim import DGCMomentum

SMALLEST = 16384
"""Parameters with fewer values are not worth it."""

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Ramp:
    """Which share of the values is held back at which step."""

    sparsity: Sequence[float] = ()
    """Empty means 0.999 from the beginning."""
    begin_step: int = 0
    num_steps: int = 1
    """Steps over which the list is walked through; its last value stays."""

    def at(self, step: int) -> float | None:
        """The share held back at a step; None as long as gradients are sent whole."""
        if step < self.begin_step:
            return None
        shares = self.sparsity or (0.999,)
        return shares[min(len(shares) - 1, (step - self.begin_step) * len(shares) // self.num_steps)]


class TopK:
    """The compression of one model's gradients on one worker.

        topk = TopK(names, Ramp(sparsity=[0.75, 0.9375, 0.999], num_steps=300))
        topk.attach(ddp)
        optimizer = topk.take(sgd)          # steps in the place of sgd
        ...
        optimizer.step(); topk.advance()    # at every step, on every worker

    `clip_norm` limits the norm of each compressed parameter's gradient on each worker to clip_norm / sqrt(workers).
    It counts for one parameter at a time, because buckets are sent before the norm of all gradients is known.
    """

    def __init__(
        self,
        names: Mapping[Parameter, str],
        ramp: Ramp,
        *,
        clip_norm: float | None = None,
    ) -> None:
        self.step = 0
        self.bytes_sent = 0
        """What this worker has handed to collectives so far."""
        self._names = dict(names)
        self._ramp = ramp
        self._num_workers = dist.get_world_size()
        self._max_norm = None if clip_norm is None else clip_norm / math.sqrt(self._num_workers)
        self._optimizer: DGCMomentum | None = None
        self._group_number: dict[Tensor, int] = {}
        self._unsent: dict[Tensor, Unsent] = {}

    def attach(self, ddp: DistributedDataParallel) -> None:
        """Let every bucket of the model's gradients pass through `reduce`."""
        # Without annotations, which torch compares with types but finds as text.
        ddp.register_comm_hook(self, lambda topk, bucket: topk.reduce(bucket))

    def take(self, sgd: SGD) -> DGCMomentum:
        """The optimizer that must step in the place of `sgd`."""
        self._optimizer = DGCMomentum.taking_over(sgd)
        return self._optimizer

    def advance(self) -> None:
        """Go on to the next step of the ramp."""
        self.step += 1

    def reduce_now(self, params: Iterable[Tensor]) -> None:
        """Do the same with gradients that backward left as they were; wait until they are done."""
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for param in params:
            if param.grad is not None:
                kinds.setdefault((param.grad.dtype, param.grad.device), []).append(param)
        for alike in kinds.values():
            bucket = OwnBucket(alike)
            self.reduce(bucket).wait()
            bucket.write_back()

    @torch.no_grad()
    def reduce(self, bucket: Bucket) -> Future[Tensor]:
        """Begin to replace the gradients of a bucket by their mean over the workers, or by what is sent of it."""
        buffer, params, grads = bucket.buffer(), bucket.parameters(), bucket.gradients()
        places = [int(grad.storage_offset() - buffer.storage_offset()) for grad in grads]
        pieces = list(zip(params, places, strict=True))
        sparsity = self._ramp.at(self.step)
        optimizer = self._require_optimizer()
        large = [] if sparsity is None else [piece for piece in pieces if self._is_large(piece[0], buffer)]
        optimizer.compressed.difference_update(params)
        optimizer.compressed.update(param for param, _ in large)
        if not large or sparsity is None:
            return self._mean(buffer)

        counts = [max(1, round(param.numel() * (1 - sparsity))) for param, _ in large]
        packed = self._pack(buffer, large, counts)
        if sum(counts) * self._num_workers > sum(param.numel() for param, _ in large):
            # So many workers would send more than the whole gradient.
            _add_sparse(buffer, packed, 1.0)
            return self._mean(buffer)
        chosen = {param for param, _ in large}
        rest = [buffer[place : place + param.numel()] for param, place in pieces if param not in chosen]
        return self._exchange(buffer, packed, rest)

    def _is_large(self, param: Tensor, buffer: Tensor) -> bool:
        return (
            param.numel() >= SMALLEST
            and buffer.dtype == torch.float32
            and buffer.numel() <= _INT32_MAX
            and self._settings(param) is not None
        )

    def _pack(self, buffer: Tensor, large: list[tuple[Tensor, int]], counts: list[int]) -> Tensor:
        """What this worker sends of a bucket, as int32: the places in the bucket, then the bits of the values."""
        packed = torch.empty((2, sum(counts)), dtype=torch.int32, device=buffer.device)
        indices = packed[0].split(counts)
        values = packed[1].view(torch.float32).split(counts)
        for (param, place), index, value in zip(large, indices, values, strict=True):
            grad = buffer[place : place + param.numel()]
            seed = (self.step << 32) + place
            poison = _poison(grad)
            self._unsent_of(param).take(grad, self._correction(param), index, value, seed)
            index += place
            value += poison
        return packed

    def _exchange(self, buffer: Tensor, packed: Tensor, rest: list[Tensor]) -> Future[Tensor]:
        """Send what was packed, take in what all others did; the rest of the bucket becomes its mean."""
        size = self._num_workers
        gathered = torch.empty((size, *packed.shape), dtype=packed.dtype, device=packed.device)
        gathering = all_gather(gathered.view(-1), packed.view(-1), async_op=True)
        self.bytes_sent += packed.nbytes
        futures = [gathering.get_future()]
        small = torch.cat(rest) if rest else None
        if small is not None:
            futures.append(self._mean(small))

        def fill(done: Future[Any]) -> Tensor:
            for future in done.value():
                future.value()  # raises if it failed
            for one in gathered:
                _add_sparse(buffer, one, 1.0 / size)
            if small is not None:
                torch._foreach_copy_(rest, small.split([one.numel() for one in rest]))
            return buffer

        return torch.futures.collect_all(futures).then(fill)

    def _mean(self, tensor: Tensor) -> Future[Tensor]:
        tensor.div_(self._num_workers)
        self.bytes_sent += tensor.nbytes
        work = dist.all_reduce(tensor, async_op=True)
        future: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
        return future

    def _require_optimizer(self) -> DGCMomentum:
        if self._optimizer is None:
            raise NotReadyError(
                "DGC needs the optimizer's momentum; pass the optimizer through fleet.distributed_optimizer() before "
                "the first batch"
            )
        return self._optimizer

    def _settings(self, param: Tensor) -> dict[str, Any] | None:
        """The optimizer's group of a parameter, as it is now."""
        groups = self._require_optimizer().param_groups
        if param not in self._group_number:
            self._group_number = {one: number for number, group in enumerate(groups) for one in group["params"]}
        number = self._group_number.get(param)
        return None if number is None else groups[number]

    def _correction(self, param: Tensor) -> Correction:
        group = self._settings(param)
        assert group is not None
        return Correction(
            group["momentum"], group["weight_decay"], group["dampening"], group["nesterov"], self._max_norm
        )

    def _unsent_of(self, param: Tensor) -> Unsent:
        if param not in self._unsent:
            # From here on this worker's part of the momentum grows on its own.
            momentum = self._require_optimizer().state[param].pop("momentum_buffer", None)
            self._unsent[param] = Unsent(param, momentum)
        return self._unsent[param]

    def state_dict(self) -> dict[str, Tensor]:
        """What this worker alone knows: the step, and momentum and sum of what is unsent, by parameter name."""
        state = {"step": torch.tensor(self.step)}
        for param, name in self._names.items():
            if unsent := self._unsent.get(param):
                state[f"momentum.{name}"] = unsent.momentum
                state[f"sum.{name}"] = unsent.sum
        return state

    def load_state_dict(self, states: Sequence[Mapping[str, Tensor]], index: int) -> None:
        """Take over what the workers of an earlier job saved; there may have been more or fewer of them."""
        saved = share(states, self._num_workers, index)
        names = [key.removeprefix("sum.") for key in saved if key.startswith("sum.")]
        params = {name: param for param, name in self._names.items()}
        unknown = [name for name in names if name not in params]
        if unknown:
            raise CheckpointError(f"the checkpoint has gradients of {unknown[0]}, which this model does not have")
        self.step = int(states[0]["step"])
        self._unsent = {}
        for name in names:
            unsent = self._unsent_of(params[name])
            unsent.momentum.copy_(saved[f"momentum.{name}"])
            unsent.sum.copy_(saved[f"sum.{name}"])


def _poison(grad: Tensor) -> Tensor:
    """0; of a gradient that is not finite NaN, to be sent so that all workers know, and it becomes 0.

    In what is unsent it would stay for ever.
    """
    poison = grad.sum() * 0.0
    if grad.device.type != "cpu":
        grad.masked_fill_(poison.isnan(), 0.0)
    elif poison.isnan():
        grad.zero_()
    return poison


def _add_sparse(buffer: Tensor, packed: Tensor, factor: float) -> None:
    """Add values at their places. A worker names a place once, so the sum does not depend on any order."""
    buffer.index_add_(0, packed[0], packed[1].view(torch.float32), alpha=factor)
