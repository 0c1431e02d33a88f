"""ReduceGrad: gradients are averaged over the workers while backward runs. The default."""

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from fleet import env
from fleet.collective.modes.base import Call, SyncPolicy
from fleet.collective.parts.average import mean_
from fleet.collective.parts.reduced import DdpTimes, reduced
from fleet.collective.parts.sync_batch_norm import is_synchronised
from fleet.errors import UsageError
from fleet.observe.metrics.writer import is_on

MB = 1 << 20


@dataclass(frozen=True)
class Buckets:
    """How gradients travel: in buckets of a size, cast or not."""

    size_bytes: int = 32 * MB
    last_bytes: int = MB
    """Size of the bucket that is reduced last: nothing is left to hide it behind."""
    dtype: torch.dtype | None = None
    """What gradients are cast to on the way."""
    find_unused: bool = False


class ReduceGrad(SyncPolicy):
    """DistributedDataParallel, its buckets set by the strategy; gradients are views of the buckets."""

    name = "gradients averaged at every step"

    def __init__(self, module: nn.Module, num_workers: int, buckets: Buckets) -> None:
        super().__init__(module, num_workers)
        for one in sparse_parameters(module):
            one.register_hook(torch.clone)
        self.ddp = _make(module, buckets)
        self._buckets = buckets
        self._trained = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
        self._times = DdpTimes(self.ddp) if is_on() else None
        self._step_bytes = self._bytes_of_step()
        if buckets.dtype is not None:
            # A lambda, since torch compares annotations as objects and ours are texts.
            self.ddp.register_comm_hook(buckets.dtype, lambda dtype, bucket: _send_as(dtype, bucket))

    @property
    def training_call(self) -> Call:
        return self.ddp

    def expect(self, reduces: bool) -> None:
        self.ddp.require_backward_grad_sync = reduces
        if reduces:
            reduced.num_bytes += self._step_bytes
            if self._times is not None:
                self._times.look()

    def _bytes_of_step(self) -> int:
        """What a backward hands to all-reduce, without gradients that come as rows: how many is not known before."""
        as_rows, cast = {id(one) for one in sparse_parameters(self.module)}, self._buckets.dtype
        dense = [one for _, one in self._trained if id(one) not in as_rows]
        return sum(one.nbytes if cast is None else one.numel() * cast.itemsize for one in dense)

    def require_gradients(self) -> None:
        # What has no gradient now may have had one: whoever lets a layer rest for a while takes its gradients away.
        try:
            self.ddp._check_reducer_finalized()
        except RuntimeError as error:
            raise self.explain(error) or error from None

    def explain(self, error: RuntimeError) -> UsageError | None:
        """torch names by number the parameters that it waits for; it looks at the next batch, or when it is asked."""
        found = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
        return _unused([self._trained[int(place)][0] for place in found[1].split()]) if found else None

    def reduce_now(self) -> None:
        gradients = [one.grad for one in self.with_gradients() if one.grad is not None]
        mean_(gradients, self._buckets.size_bytes, self._buckets.dtype)

    def with_gradients(self) -> list[nn.Parameter]:
        """The parameters that have a gradient on any worker; where this one has none, it gets zeros."""
        trained = [one for _, one in self._trained if one.requires_grad]
        # A worker whose batches did not use a parameter has no gradient where another may have one.
        used = torch.tensor([one.grad is not None for one in trained], dtype=torch.uint8)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        found = [parameter for parameter, is_used in zip(trained, used.tolist(), strict=True) if is_used]
        as_rows = {id(one) for one in sparse_parameters(self.module)}
        for parameter in found:
            if parameter.grad is None:
                zeros = torch.zeros_like(parameter)
                parameter.grad = zeros.to_sparse(1) if id(parameter) in as_rows else zeros
        return found

    @contextmanager
    def join(self) -> Iterator[None]:
        if self._buckets.dtype is not None:
            raise self.refuse_join("a compressed mean counts every worker")
        if any(is_synchronised(one) for one in self.module.modules()):
            raise self.refuse_join("batch norm that is synchronised needs every worker's batch")
        with Join([self.ddp], enable=True, divide_by_initial_world_size=False):
            yield
        # torch leaves it switched on: every later batch would ask the others whether they have left. Without the
        # question it would go on dividing by the answer it got last, so it is given one: divide by all.
        self.ddp._join_config = type(self.ddp._join_config).construct_disabled_join_config()
        everybody = dist.all_reduce(torch.zeros(1, device=self.ddp.device), async_op=True)
        self.ddp.reducer._set_forward_pass_work_handle(everybody, True)


def _unused(names: list[str], most: int = 4) -> UsageError:
    listed = ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
    return UsageError(
        f"backward has left no gradient for {listed}, so workers could not average: these parameters had no part in "
        "the loss; set strategy.find_unused_parameters = True, or freeze them with requires_grad_(False) before "
        "fleet.distributed_model()"
    )


def sparse_parameters(module: nn.Module) -> list[torch.Tensor]:
    """The parameters whose gradients come as rows.

    Their gradients are to be copied before they are reduced: torch lets the rows of all embeddings whose results are
    added up lie in the same memory, and DistributedDataParallel divides each of them in place.
    """
    owners = [one for one in module.modules() if isinstance(one, nn.Embedding | nn.EmbeddingBag) and one.sparse]
    found = {id(one.weight): one.weight for one in owners if one.weight.requires_grad}
    return list(found.values())


def _send_as(dtype: torch.dtype, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket in another type. torch's own hooks for this want NCCL for bfloat16."""
    gradients = bucket.buffer()
    # Divided before it is added up: a sum may leave the range of float16 where the mean does not.
    sent = gradients.to(dtype).div_(dist.get_world_size())
    arrived: torch.futures.Future[torch.Tensor] = dist.all_reduce(sent, async_op=True).get_future()

    def put_back(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        done.value()  # raises what went wrong
        return gradients.copy_(sent)

    return arrived.then(put_back)


class _Sized(DistributedDataParallel):
    """DistributedDataParallel with a size of its own for the bucket that is reduced last."""

    def __init__(self, module: nn.Module, last_bytes: int, **options: Any) -> None:
        self.__dict__["last_bytes"] = last_bytes  # nn.Module.__init__ has not run yet
        super().__init__(module, **options)

    if TYPE_CHECKING:
        last_bytes: int

    def _ddp_init_helper(self, *arguments: Any, **options: Any) -> None:
        # What torch calls the first bucket is the last to be reduced once DDP_SET_LAST_BUCKET_CAP says so.
        if hasattr(self, "_bucket_config"):
            self._bucket_config = dataclasses.replace(self._bucket_config, first_bucket_bytes_cap=self.last_bytes)
            super()._ddp_init_helper(*arguments, **options)  # type: ignore[no-untyped-call]
            return
        usual = dist._DEFAULT_FIRST_BUCKET_BYTES  # torch before 2.13 has no other way in
        self.bucket_bytes_cap_default = True
        dist._DEFAULT_FIRST_BUCKET_BYTES = self.last_bytes
        try:
            super()._ddp_init_helper(*arguments, **options)  # type: ignore[no-untyped-call]
        finally:
            dist._DEFAULT_FIRST_BUCKET_BYTES = usual


def _make(module: nn.Module, buckets: Buckets) -> DistributedDataParallel:
    env.prefer("DDP_SET_LAST_BUCKET_CAP", "1")
    # Without device_ids: inputs are the user's to move, as in every other policy.
    return _Sized(
        module,
        last_bytes=min(buckets.last_bytes, buckets.size_bytes),
        bucket_cap_mb=buckets.size_bytes / MB,
        find_unused_parameters=buckets.find_unused,
        gradient_as_bucket_view=True,
    )
