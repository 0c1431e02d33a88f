"""`PyLayer`: a function with a backward of the script's own; and `backward` of several tensors at once.

class Tanh(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = paddle.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        return dy * (1 - paddle.square(y))

y = Tanh.apply(x)
"""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.tensor import as_paddle

__all__ = ["PyLayer", "PyLayerContext", "backward"]


class PyLayerContext:
    """What `forward` leaves for `backward`: tensors, and whatever it sets as attributes."""

    def __init__(self) -> None:
        self.container: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors; `saved_tensor()` gives them back."""
        self.container = tensors

    def saved_tensor(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        return self.container


class PyLayer:
    """A subclass writes `forward` and `backward`, which take a context first, and is called by `apply`.

    `backward` is given a gradient for each tensor that `forward` gave, and gives one for each that it was given.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG004
        """The function; nothing in it is differentiated."""
        raise NotSupportedError("PyLayer: forward is not written; a subclass says what it computes")

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:  # noqa: ARG004
        """Its gradients."""
        raise NotSupportedError("PyLayer: backward is not written; a subclass says what its gradients are")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call it: `forward`, and `backward` when gradients are asked for."""
        values = (*args, *kwargs.values())
        tensors = [one for one in values if isinstance(one, torch.Tensor)]
        return as_paddle(_Function.apply(cls, args, kwargs, *tensors))  # type: ignore[no-untyped-call]


_TENSOR = object()  # stands for one that torch keeps


class _Function(torch.autograd.Function):
    """torch's own, which wants the tensors among its arguments, and a gradient or None for each argument."""

    @staticmethod
    def forward(ctx: Any, kind: type[PyLayer], args: Any, kwargs: dict[str, Any], *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        own = [as_paddle(next(given)) if isinstance(one, torch.Tensor) else one for one in args]
        named = {name: as_paddle(next(given)) if isinstance(one, torch.Tensor) else one for name, one in kwargs.items()}
        ctx.kind, ctx.context, ctx.count = kind, PyLayerContext(), len(tensors)
        made = kind.forward(ctx.context, *own, **named)
        # Kept by torch, and given up after backward: an output that hung on its own context would wait for Python's
        # collector of circles, which does not know how large it is.
        kept = ctx.context.container
        ctx.save_for_backward(*(one for one in kept if isinstance(one, torch.Tensor)))
        ctx.context.container = ()
        ctx.others = [_TENSOR if isinstance(one, torch.Tensor) else one for one in kept]
        return tuple(made) if isinstance(made, list) else made

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        ctx.context.container = tuple(as_paddle(next(saved)) if one is _TENSOR else one for one in ctx.others)
        try:
            found = ctx.kind.backward(ctx.context, *as_paddle(list(gradients)))
        finally:
            ctx.context.container = ()
        several = list(found) if isinstance(found, list | tuple) else [found]
        if len(several) != ctx.count:
            raise UsageError(
                f"{ctx.kind.__name__}.backward gave {len(several)} gradients for {ctx.count} tensors of forward; give "
                "one for each, or None"
            )
        return (None, None, None, *several)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Gradients of several tensors, added up; each begins with its tensor of `grad_tensors`, or with ones."""
    several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    starts = [None] * len(several) if grad_tensors is None else grad_tensors
    starts = [starts] if isinstance(starts, torch.Tensor) else list(starts)
    if len(starts) != len(several):
        raise UsageError(
            f"backward: {len(several)} tensors, but {len(starts)} grad_tensors; give one for each, or None"
        )
    begins = [torch.ones_like(one) if start is None else start for one, start in zip(several, starts, strict=True)]
    torch.autograd.backward(several, begins, retain_graph)
