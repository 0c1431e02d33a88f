"""DGC: of large gradients only the largest values are sent, the rest waits on the worker until it is large."""

import torch
from torch import nn
from torch.optim import SGD, Optimizer

from fleet.collective.modes.reduce_grad import Buckets, ReduceGrad
from fleet.collective.parts.reduced import reduced
from fleet.collective.parts.topk import Ramp, TopK
from fleet.optim import DGCMomentum


class DGC(ReduceGrad):
    """ReduceGrad whose buckets are compressed by `TopK` once the ramp has begun."""

    name = "dgc"
    no_join = "every worker sends as many values as the others"

    def __init__(
        self,
        module: nn.Module,
        num_workers: int,
        buckets: Buckets,
        ramp: Ramp,
        clip_norm: float | None,
    ) -> None:
        super().__init__(module, num_workers, buckets)
        self._inner: DGCMomentum | None = None
        self._counted_bytes = 0
        names = {parameter: name for name, parameter in module.named_parameters()}
        self.topk = TopK(names, ramp, clip_norm=clip_norm)
        self.topk.attach(self.ddp)

    def take(self, optimizer: Optimizer) -> Optimizer:
        assert isinstance(optimizer, SGD)  # compose has refused any other
        self._inner = self.topk.take(optimizer)
        return self._inner

    def to_clip(self, parameters: list[torch.Tensor]) -> list[torch.Tensor]:
        """Without those that come compressed, which each worker has clipped before sending."""
        assert self._inner is not None
        compressed = self._inner.compressed
        return [one for one in parameters if one not in compressed]

    def reduce_now(self) -> None:
        self.topk.reduce_now(self.with_gradients())

    def stepped(self, loss: torch.Tensor | None) -> None:  # noqa: ARG002
        self.topk.advance()
        reduced.num_bytes += self.topk.bytes_sent - self._counted_bytes
        self._counted_bytes = self.topk.bytes_sent

    def _bytes_of_step(self) -> int:
        """Not known before: they are counted as they are sent."""
        return 0

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What this worker has not sent yet."""
        return self.topk.state_dict()

    def load_state_dict(self, states: list[dict[str, torch.Tensor]], index: int) -> None:
        self.topk.load_state_dict(states, index)
