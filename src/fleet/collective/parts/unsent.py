"""What a worker has not sent yet of a parameter's gradient, and how the largest of it is taken out to be sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fleet import _native
from fleet.errors import CheckpointError


@dataclass(frozen=True)
class Correction:
    """What becomes of a gradient before it is sent: the part of momentum SGD that then need not be done afterwards."""

    momentum: float
    weight_decay: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    max_norm: float | None = None
    """The gradient of a parameter is scaled down to this norm before anything else."""


class Unsent:
    """The accumulators of one parameter on one worker.

        d        = (1 - dampening) * (clipped gradient + weight_decay * w)
        momentum = m * momentum + d
        sum      = sum + momentum                   nesterov: sum + d + m * momentum

    What is sent is taken from `sum`, and both are zero there afterwards: a value that was late does not also push on
    with momentum gathered in the meantime. Nothing is lost: the rest waits until it is large enough.
    """

    def __init__(self, weight: Tensor, momentum: Tensor | None = None) -> None:
        """`momentum`: that of an SGD so far, which is taken over, memory and all."""
        self._weight = weight.detach()
        self.sum = torch.empty_strided(
            weight.shape, layout_of(weight), dtype=weight.dtype, device=weight.device
        ).zero_()
        if momentum is None or momentum.stride() != self.sum.stride():
            self.momentum = torch.zeros_like(self.sum)
            if momentum is not None:
                self.momentum.copy_(momentum)
        else:
            self.momentum = momentum

    def take(
        self, grad: Tensor, correction: Correction, index: Tensor, value: Tensor, seed: int = 0, native: bool = True
    ) -> None:
        """Add a gradient and take out the len(index) values farthest from zero: where they were, and what.

        `grad` is flat, in the order of the parameter's memory, and zero afterwards. Where fewer values are not zero,
        zeros fill `index` and `value`. `native`: by the C++ core where it can; `seed` changes nothing but the time it
        takes.
        """
        c = correction
        keep = 1.0 - c.dampening
        decay = c.weight_decay * keep
        scale = keep if c.max_norm is None else clip_scale(grad, c.max_norm) * keep
        weight = _flat(self._weight, self.sum) if decay else None
        momentum, total = _flat(self.momentum, self.sum), _flat(self.sum, self.sum)
        if not native or grad.device.type != "cpu":
            _take_by_torch(grad, weight, momentum, total, index, value, scale, decay, c)
            return
        count = _native.compress(
            grad,
            weight,
            momentum,
            total,
            index,
            value,
            scale=float(scale),
            decay=decay,
            mu=c.momentum,
            nesterov=c.nesterov,
            seed=seed,
        )
        index[count:] = 0
        value[count:] = 0


def clip_scale(grad: Tensor, max_norm: float) -> Tensor:
    """What to multiply a gradient by so that its norm is at most `max_norm`; 1 for one that is not a number anyway."""
    ratio = max_norm / torch.linalg.vector_norm(grad)
    return torch.nan_to_num(ratio, nan=1.0).clamp(max=1.0)


def _take_by_torch(
    grad: Tensor,
    weight: Tensor | None,
    momentum: Tensor,
    total: Tensor,
    index: Tensor,
    value: Tensor,
    scale: float | Tensor,
    decay: float,
    c: Correction,
) -> None:
    """What the native core does, in the same steps, by operations on whole tensors that wait for no device."""
    grad.mul_(scale)
    if weight is not None:
        grad.add_(weight * decay)
    momentum.mul_(c.momentum).add_(grad)
    total.add_(grad.add_(momentum * c.momentum) if c.nesterov else momentum)
    chosen = total.abs().topk(index.numel(), sorted=False).indices
    index.copy_(chosen)
    value.copy_(total[chosen])
    total.index_fill_(0, chosen, 0)
    momentum.index_fill_(0, chosen, 0)
    grad.zero_()


def layout_of(weight: Tensor) -> tuple[int, ...]:
    """The strides that DDP gives a parameter's gradient: the parameter's own, if they leave no gaps in memory."""
    alike = torch.empty_like(weight, device="meta", memory_format=torch.preserve_format).stride()
    if alike == weight.stride():
        return alike
    return torch.empty(weight.shape, device="meta").stride()


def _flat(tensor: Tensor, layout: Tensor) -> Tensor:
    """The values of a tensor in the order of `layout`'s memory."""
    if tensor.stride() != layout.stride():
        tensor = torch.empty_like(layout).copy_(tensor)
    return tensor.as_strided((tensor.numel(),), (1,))


def share(states: Sequence[Mapping[str, Tensor]], num_workers: int, index: int) -> dict[str, Tensor]:
    """What worker `index` of `num_workers` gets of the saved accumulators of a job that may have had another number.

    As many workers as before get their own back. Otherwise each gets the mean of all, so that what is still unsent adds
    up, over the number of workers, to what it was.
    """
    if len(states) == num_workers:
        return dict(states[index])
    for number, state in enumerate(states):
        if state.keys() != states[0].keys():
            odd = min(state.keys() ^ states[0].keys())
            raise CheckpointError(
                f"{odd} is not in the state of both worker 0 and worker {number}; load another checkpoint"
            )
    return {name: _mean([state[name] for state in states]) for name in states[0]}


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors[0].is_floating_point():  # a step, which is the same for all
        return tensors[0]
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total.div_(len(tensors))
