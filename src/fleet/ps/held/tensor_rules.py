"""The rules of csrc/rule as torch operations on one flat tensor, for dense parameters on a GPU.

Every operation is rounded by itself and stands in the order of the native rule, so that a GPU gives the same bits: no
fused multiply-add, no lerp, no division by a number (which torch turns into a product). The last bit may differ where a
native rule uses its own power, as FTRL does with an unusual `lr_power`; very rarely in LARS and LAMB, whose norms are
sums in double but in another order; and on the CPU, where torch's square root is not the nearest float, which only
tests see.

State is that of the native rules: arrays as long as the values, and scalars, which stay in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

Args = Mapping[str, float]
Arrays = Sequence[torch.Tensor]
Scalars = NDArray[np.float32]

TensorRule = Callable[[torch.Tensor, Arrays, Scalars, torch.Tensor, float, Args], None]
"""(values, arrays, scalars, grads, lr, args): one update in place. The gradients are written over."""

TINY = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)


def _gradient(values: torch.Tensor, grads: torch.Tensor, args: Args, weight_decay: float) -> torch.Tensor:
    if args.get("maximize", 0):
        grads = grads.neg_()
    return grads.add_(values * weight_decay) if weight_decay else grads


def _plain_gradient(values: torch.Tensor, grads: torch.Tensor, args: Args) -> torch.Tensor:
    return _gradient(values, grads, args, args.get("weight_decay", 0.0))


def _sum(values: torch.Tensor, _: Arrays, __: Scalars, grads: torch.Tensor, ___: float, ____: Args) -> None:
    values.add_(grads)


def _average(values: torch.Tensor, _: Arrays, __: Scalars, grads: torch.Tensor, lr: float, ___: Args) -> None:
    if lr == 1:
        values.copy_(grads)
    else:
        values.add_(grads.sub_(values).mul_(lr))


def _sgd(values: torch.Tensor, _: Arrays, __: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    values.sub_(_plain_gradient(values, grads, args).mul_(lr))


def _momentum(
    values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args
) -> None:
    (buffer,) = arrays
    momentum, share = args["momentum"], 1 - args.get("dampening", 0.0)
    if len(scalars):
        if scalars[0] == 0:
            share = 1.0
        scalars[0] = 1
    g = _plain_gradient(values, grads, args)
    buffer.mul_(momentum).add_(g if share == 1 else g * share)
    change = g.add_(buffer * momentum) if args.get("nesterov", 0) else buffer
    values.sub_(change * lr)


def _adagrad(
    values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args
) -> None:
    (sums,) = arrays
    if len(scalars):
        lr /= 1 + float(scalars[0]) * args["lr_decay"]
        scalars[0] += 1
    g = _plain_gradient(values, grads, args)
    sums.add_(g * g)
    values.sub_(g.mul_(lr).div_(sums.sqrt().add_(args.get("eps", 1e-10))))


def _adam(values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    _adam_step(values, arrays, scalars, grads, lr, args, 0.0, bool(args.get("decoupled_weight_decay", 0)))


def _adamw(values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    _adam_step(values, arrays, scalars, grads, lr, args, 0.01, True)


def _adam_step(
    values: torch.Tensor,
    arrays: Arrays,
    scalars: Scalars,
    grads: torch.Tensor,
    lr: float,
    args: Args,
    default_decay: float,
    is_decoupled: bool,
) -> None:
    means, squares, *largest = arrays
    beta1, beta2 = args.get("beta1", 0.9), args.get("beta2", 0.999)
    weight_decay = args.get("weight_decay", default_decay)
    scalars[0] += 1
    count = max(1, int(scalars[0]))
    g = _gradient(values, grads, args, 0.0 if is_decoupled else weight_decay)
    means.add_((g - means).mul_(1 - beta1))
    squares.mul_(beta2).add_((g * (1 - beta2)).mul_(g))
    if largest:
        torch.maximum(largest[0], squares, out=largest[0])
    root = (largest[0] if largest else squares).sqrt().mul_(_correction(beta2, count) ** -0.5)
    if is_decoupled and weight_decay:
        values.mul_(1 - lr * weight_decay)
    values.sub_((means * (lr / _correction(beta1, count))).div_(root.add_(args.get("eps", 1e-8))))


def _correction(beta: float, count: int) -> float:
    """1 - beta^count, and exactly 1 once float32 cannot tell them apart."""
    correction = 1 - beta**count
    return 1.0 if np.float32(correction) == 1 else correction


def _adamax(values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    means, sizes = arrays
    beta1 = args.get("beta1", 0.9)
    scalars[0] += 1
    g = _plain_gradient(values, grads, args)
    means.mul_(beta1).add_(g * (1 - beta1))
    torch.maximum(sizes.mul_(args.get("beta2", 0.999)), g.abs_().add_(args.get("eps", 1e-8)), out=sizes)
    values.sub_((means * (lr / _correction(beta1, max(1, int(scalars[0]))))).div_(sizes))


def _rmsprop(values: torch.Tensor, arrays: Arrays, _: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    squares, *rest = arrays
    alpha, momentum = args.get("alpha", 0.99), args.get("momentum", 0.0)
    g = _plain_gradient(values, grads, args)
    squares.mul_(alpha).add_((g * (1 - alpha)).mul_(g))
    variance = squares
    if args.get("centered", 0):
        means = rest[-1]
        means.add_((g - means).mul_(1 - alpha))
        variance = (squares - means * means).clamp_(min=0)  # rounding may take it below
    root = variance.sqrt().add_(args.get("eps", 1e-8))
    if momentum > 0:
        values.sub_(rest[0].mul_(momentum).add_(g.div_(root)) * lr)
    else:
        values.sub_(g.mul_(lr).div_(root))


def _ftrl(values: torch.Tensor, arrays: Arrays, _: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    if lr < TINY:
        return
    z, n = arrays
    l1, l2, power = args.get("l1", 0.0), args.get("l2", 0.0), -args.get("lr_power", -0.5)
    g = _plain_gradient(values, grads, args)
    after = n + g * g
    if power == 0.5:
        root = after.sqrt()
        growth = (after - n).div_(n.sqrt_().add_(root).add_(TINY)).mul_(1 / lr)
        z.add_(g.sub_(growth.mul_(values)))
    else:
        root = after.double().pow_(power)
        growth = root - n.double().pow_(power)
        z.copy_(growth.mul_(1 / lr).mul_(values).neg_().add_(g).add_(z))
    n.copy_(after)
    shrunk = z.clamp(-float(np.float32(l1)), float(np.float32(l1))).sub_(z)
    values.copy_(shrunk / root.mul_(1 / lr).add_(2 * l2).add_(TINY))


def _decayed_adagrad(
    values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args
) -> None:
    same = {"alpha": args.get("decay", 0.95), "eps": args.get("eps", 1e-6)}
    _rmsprop(values, arrays, scalars, grads, lr, {**args, **same})  # which is what it comes to


def _lars(values: torch.Tensor, arrays: Arrays, _: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    (velocity,) = arrays
    momentum, weight_decay = args.get("momentum", 0.9), args.get("weight_decay", 0.0005)
    weights, size = _norm(values), _norm(grads)
    scaled = (weights * (lr * args.get("coeff", 0.001))).div_(size + weights * weight_decay + args.get("eps", 0.0))
    rate = torch.where((weights > 0) & (size > 0), scaled, lr)
    step = _gradient(values, grads, args, weight_decay).mul_(_finite_rate(rate))
    velocity.mul_(momentum).add_(step)
    values.sub_(step.add_(velocity * momentum) if args.get("nesterov", 0) else velocity)


def _lamb(values: torch.Tensor, arrays: Arrays, scalars: Scalars, grads: torch.Tensor, lr: float, args: Args) -> None:
    means, squares = arrays
    beta1, beta2 = args.get("beta1", 0.9), args.get("beta2", 0.999)
    scalars[0] += 1
    count = max(1, int(scalars[0]))
    g = _gradient(values, grads, args, 0.0)
    means.mul_(beta1).add_(g * (1 - beta1))
    squares.mul_(beta2).add_((g * (1 - beta2)).mul_(g))
    root = squares.sqrt().mul_(_correction(beta2, count) ** -0.5).add_(args.get("eps", 1e-6))
    direction = (means * (1 / _correction(beta1, count))).div_(root).add_(values * args.get("weight_decay", 0.01))
    weights, size = _norm(values), _norm(direction)
    trust = torch.where((weights > 0) & (size > 0), weights / size, 1.0)
    values.sub_(direction.mul_(_finite_rate(trust * lr)))


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    """In double and on the device, so that nobody waits for it."""
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=torch.float64)
    return norm


def _finite_rate(rate: torch.Tensor) -> torch.Tensor:
    """The float of a rate that was divided by a norm; where that was next to nothing, the largest there is."""
    return rate.clamp(max=LARGEST).float()


TENSOR_RULES: dict[str, TensorRule] = {
    "adagrad": _adagrad,
    "adam": _adam,
    "adamax": _adamax,
    "adamw": _adamw,
    "average": _average,
    "decayed_adagrad": _decayed_adagrad,
    "ftrl": _ftrl,
    "lamb": _lamb,
    "lars": _lars,
    "momentum": _momentum,
    "rmsprop": _rmsprop,
    "sgd": _sgd,
    "sum": _sum,
}
