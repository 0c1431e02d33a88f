"""The formulas of rules as torch operations, for values that are tensors; `rule_table` says which rule has which.

Every operation is rounded by itself and stands in the order of the native rule: no fused multiply-add, no lerp, no
division by a number (which torch turns into a product). So the bits are the same, but where `bound` says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleet.ps.job.corrections import Corrections, Number

Args = Mapping[str, float]
Scalar = NDArray[np.float32] | Tensor
"""One float for all values, in host memory or on the device, or a column with one for each row."""

TINY = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class RuleStep:
    """One update in place. The gradients stay as they are.

    Norms are taken over the dimensions from `axis` on: 0 measures everything, 1 each row by itself.
    """

    values: Tensor
    arrays: tuple[Tensor, ...]
    scalar: Scalar | None
    grads: Tensor
    lr: Number
    args: Args
    corrections: Mapping[str, Corrections]
    axis: int

    def gradient(self) -> Tensor:
        """The gradient that a rule sees: negated to maximise, with the weight decay added."""
        decay = 0.0 if self.args.get("decoupled_weight_decay") else self.args.get("weight_decay", 0.0)
        grads = -self.grads if self.args.get("maximize") else self.grads
        return grads + self.values * decay if decay else grads

    def before(self) -> Number:
        """The scalar before this update, in double."""
        assert self.scalar is not None
        if isinstance(self.scalar, Tensor):
            return self.scalar.to(torch.float64, copy=True)
        return float(self.scalar[0])

    def count(self) -> Number:
        """Count this update; how many there were, this one included."""
        scalar = self.scalar
        assert scalar is not None
        scalar += 1.0  # in place
        return self.before()

    def plain(self, number: Number) -> Number:
        """A number, rounded to the type of the values."""
        return number.to(self.values.dtype) if isinstance(number, Tensor) else number

    def norm(self, tensor: Tensor) -> Tensor:
        """The norm of a tensor, in double and on the device, so that nobody waits for it."""
        dims = tuple(range(self.axis, tensor.ndim))
        if self.axis and not dims:
            return tensor.abs().double()
        found: Tensor = torch.linalg.vector_norm(tensor, dim=dims, keepdim=True, dtype=torch.float64)
        return found if tensor.ndim else found.view(())

    def finite_rate(self, rate: Tensor) -> Number:
        """A rate that was divided by a norm; the largest float where the norm was next to nothing."""
        return self.plain(rate.clamp(max=LARGEST))


def _root(tensor: Tensor) -> Tensor:
    """The root, rounded to the nearest float; torch's own on a CPU may be one float off."""
    if tensor.device.type == "cpu" and tensor.dtype == torch.float32:
        return torch.from_numpy(np.sqrt(tensor.numpy()))
    return tensor.sqrt()


def add(s: RuleStep) -> None:
    """Add the gradient, as a difference of values."""
    s.values.add_(s.grads)


def average(s: RuleStep) -> None:
    """Move the values towards what was sent, as running statistics are."""
    s.values.copy_(s.grads if s.lr == 1 else s.values + (s.grads - s.values) * s.lr)


def sgd(s: RuleStep) -> None:
    """Subtract the learning rate times the gradient."""
    s.values.sub_(s.gradient() * s.plain(s.lr))


def momentum(s: RuleStep) -> None:
    """SGD with momentum, dampening and Nesterov."""
    (buffer,) = s.arrays
    share: Number = 1 - s.args["dampening"]
    if s.scalar is not None:  # the first gradient enters undamped
        begun = s.before()
        s.scalar[...] = 1.0
        if isinstance(begun, Tensor):
            share = s.plain(torch.where(begun == 0, torch.ones_like(begun), share))
        elif begun == 0:
            share = 1.0
    g = s.gradient()
    buffer.mul_(s.args["momentum"]).add_(g if isinstance(share, float) and share == 1 else g * share)
    s.values.sub_((g + buffer * s.args["momentum"] if s.args["nesterov"] else buffer) * s.plain(s.lr))


def adagrad(s: RuleStep) -> None:
    """Divide by the root of the sum of all squared gradients."""
    (sums,) = s.arrays
    lr = s.lr
    if s.scalar is not None:
        lr = lr / (s.before() * s.args["lr_decay"] + 1)
        s.count()
    g = s.gradient()
    sums.add_(g * g)
    s.values.sub_((g * s.plain(lr)).div_(_root(sums).add_(s.args["eps"])))


def adam(s: RuleStep) -> None:
    """Adam and AdamW, with AMSGrad."""
    means, squares, *largest = s.arrays
    count, beta1, beta2, decay = s.count(), s.args["beta1"], s.args["beta2"], s.args["weight_decay"]
    g = s.gradient()
    means.add_((g - means).mul_(1 - beta1))
    squares.mul_(beta2).add_((g * (1 - beta2)).mul_(g))
    if largest:
        squares = torch.maximum(largest[0], squares, out=largest[0])
    root = _root(squares).mul_(s.plain(s.corrections["beta2"].at(count))).add_(s.args["eps"])
    if s.args["decoupled_weight_decay"] and decay:
        s.values.mul_(s.plain(1 - s.lr * decay))
    s.values.sub_((means * s.plain(s.lr * s.corrections["beta1"].at(count))).div_(root))


def adamax(s: RuleStep) -> None:
    """Adam with the largest gradient instead of the mean of squares."""
    means, sizes = s.arrays
    count, beta1 = s.count(), s.args["beta1"]
    g = s.gradient()
    means.mul_(beta1).add_(g * (1 - beta1))
    torch.maximum(sizes.mul_(s.args["beta2"]), g.abs().add_(s.args["eps"]), out=sizes)
    s.values.sub_((means * s.plain(s.lr * s.corrections["beta1"].at(count))).div_(sizes))


def rmsprop(s: RuleStep) -> None:
    """RMSprop, centered or not, with momentum."""
    squares, *more = s.arrays
    alpha, lr = s.args.get("alpha", s.args.get("decay", 0.0)), s.plain(s.lr)
    g = s.gradient()
    squares.mul_(alpha).add_((g * (1 - alpha)).mul_(g))
    variance = squares
    if s.args.get("centered"):
        means = more[-1]
        means.add_((g - means).mul_(1 - alpha))
        variance = (squares - means * means).clamp_(min=0)  # rounding may take it below
    root = _root(variance).add_(s.args["eps"])
    if s.args.get("momentum"):
        s.values.sub_(more[0].mul_(s.args["momentum"]).add_(g / root) * lr)
    else:
        s.values.sub_((g * lr).div_(root))


def ftrl(s: RuleStep) -> None:
    """FTRL divides by the rate, so at a rate of 0 nothing changes."""
    z, n = s.arrays
    l1, l2 = (float(np.float32(s.args[name])) for name in ("l1", "l2"))
    power, is_moving = -s.args["lr_power"], s.lr >= TINY
    if is_moving is False:
        return
    inverse = torch.where(s.lr >= TINY, s.lr, 1.0).double().reciprocal() if isinstance(s.lr, Tensor) else 1 / s.lr
    g = s.gradient()
    after = n + g * g
    if power == 0.5:
        inverse, root = s.plain(inverse), _root(after)
        growth = (after - n).div_(root + _root(n) + TINY)  # keeps digits that a difference would lose
    else:
        root = after.double().pow(power)
        growth = root - n.double().pow(power)
    linear = (z + (g - growth * inverse * s.values)).to(z.dtype)
    shrunk = linear.clamp(-l1, l1).sub_(linear)
    changed = (shrunk / (root * inverse + 2 * l2 + TINY)).to(z.dtype)
    for one, new in zip((s.values, z, n), (changed, linear, after), strict=True):
        one.copy_(torch.where(is_moving, new, one) if isinstance(is_moving, Tensor) else new)


def lars(s: RuleStep) -> None:
    """Momentum whose rate follows the norms of values and gradients."""
    (velocity,) = s.arrays
    momentum = s.args["momentum"]
    weights, size = s.norm(s.values), s.norm(s.grads)
    scaled = weights * (s.lr * s.args["coeff"]) / (size + weights * s.args["weight_decay"] + s.args["eps"])
    step = s.gradient() * s.finite_rate(torch.where((weights > 0) & (size > 0), scaled, s.lr))
    velocity.mul_(momentum).add_(step)
    s.values.sub_(step.add_(velocity * momentum) if s.args["nesterov"] else velocity)


def lamb(s: RuleStep) -> None:
    """Adam whose rate follows the norms of values and steps."""
    means, squares = s.arrays
    count, beta1, beta2 = s.count(), s.args["beta1"], s.args["beta2"]
    g = -s.grads if s.args["maximize"] else s.grads
    means.mul_(beta1).add_(g * (1 - beta1))
    squares.mul_(beta2).add_((g * (1 - beta2)).mul_(g))
    root = _root(squares).mul_(s.plain(s.corrections["beta2"].at(count))).add_(s.args["eps"])
    direction = (means * s.plain(s.corrections["beta1"].at(count))).div_(root).add_(s.values * s.args["weight_decay"])
    weights, size = s.norm(s.values), s.norm(direction)
    trust = torch.where((weights > 0) & (size > 0), weights / size, 1.0)
    s.values.sub_(direction.mul_(s.finite_rate(trust * s.lr)))
