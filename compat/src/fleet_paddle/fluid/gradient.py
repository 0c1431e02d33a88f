"""Operators on tensors whose gradients are those of the program: what torch's autograd would find is not asked for.

Kernels may overwrite what they no longer need, or treat a case in their gradient alone, as the cross entropy of a
probability that is 0; so where an operator brings a gradient of its own, that is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet_programs.backward.backward import gradients
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.executor.compile import needed
from fleet_programs.executor.emit import Emitter, Step
from fleet_programs.executor.scope import Scope
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.program.program import Program, program_guard

Run = Callable[..., tuple[Any, ...]]


def runner(main: Program, feeds: Sequence[str], fetches: Sequence[str], device: torch.device) -> tuple[Run, bool]:
    """A program as a function of its feeds' tensors, and whether these may be tensors of any class."""
    block = main.global_block()
    ops = needed(block, fetches)
    step = _emitted(main, ops, feeds, fetches, device)
    given = set(feeds)
    # Methods of our tensors mean what Paddle means by them, and kernels mean torch's; torch's functions ask neither.
    takes_any = all(
        not given & set(op.input_names) or isinstance(kernel, BuiltinFunctionType)
        for op, kernel in zip(ops, step.kernels, strict=True)
    )
    if all(_is_native(op, kernel) for op, kernel in zip(ops, step.kernels, strict=True)):
        return step.function, takes_any
    return _Run(main, feeds, fetches, device, step.function), False


def _is_native(op: Operator, kernel: Any) -> bool:
    """Whether autograd sees through the kernel, with the gradient of the program: no detour, and gradients of those."""
    if isinstance(kernel, BuiltinFunctionType) or definition(op.type).grad is None:
        return True
    gradient = definition(f"{op.type}_grad")
    return gradient.make is None or gradient.as_autograd


def _emitted(
    main: Program, ops: Sequence[Operator], feeds: Sequence[str], fetches: Sequence[str], device: torch.device
) -> Step:
    return Emitter(Lowering(main.global_block(), device, Scope()), feeds, fetches, {}).function_of_tensors(ops)


class _Run:
    """The function without gradients, and one with them for each set of tensors that want theirs."""

    def __init__(
        self, main: Program, feeds: Sequence[str], fetches: Sequence[str], device: torch.device, step: Run
    ) -> None:
        self._main, self._feeds, self._fetches, self._device, self._step = main, feeds, fetches, device, step
        self._plans: dict[tuple[bool, ...], _Plan] = {}

    def __call__(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        wanted = tuple([one.requires_grad for one in tensors])
        if not torch.is_grad_enabled() or True not in wanted:
            return self._step(*tensors)
        if wanted not in self._plans:
            self._plans[wanted] = _Plan(self._main.clone(), self._feeds, self._fetches, self._device, wanted)
        made: tuple[Any, ...] = _WithGradient.apply(self._plans[wanted], *tensors)  # type: ignore[no-untyped-call]
        return made


class _Plan:
    """Forward and backward as two functions, and what the first keeps for the second."""

    def __init__(
        self,
        main: Program,
        feeds: Sequence[str],
        fetches: Sequence[str],
        device: torch.device,
        wanted: Sequence[bool],
    ) -> None:
        block = main.global_block()
        ops = needed(block, fetches)
        self.num_outs = len(fetches)
        self.outs = [place for place, name in enumerate(fetches) if block.var(name).dtype in FLOATS]
        written = {name for op in ops for name in op.output_names}
        self.outs = [place for place in self.outs if fetches[place] in written]
        targets = [block.var(fetches[place]) for place in self.outs]
        starts = [block.create_var(f"start{place}", one.shape, one.dtype) for place, one in enumerate(targets)]
        inputs = [block.var(name) for name, want in zip(feeds, wanted, strict=True) if want]
        before = len(block.ops)
        with program_guard(main, Program()):
            found = iter(gradients(targets, inputs, starts) if targets else [])
        self.places: list[int | None] = []
        names: list[str] = []
        for want in wanted:
            gradient = next(found, None) if want else None
            self.places.append(None if gradient is None else len(names))
            names += [] if gradient is None else [gradient.name]
        later = _leading_to(block.ops[before:], names)
        given = {one.name for one in starts}
        made = {name for op in later for name in op.output_names}
        read = dict.fromkeys(name for op in later for name in op.input_names if name not in made | given)
        self.kept = list(read)
        self.what = ", ".join(dict.fromkeys(op.type for op in ops))
        # Autograd knows where arguments and results came from, and nothing of values in between.
        seen = {*feeds, *(fetches[place] for place in self.outs)}
        between = [name for name in read if name not in seen and block.var(name).dtype in FLOATS]
        self.is_seen = not self.outs or (not between and not any(definition(op.type).once for op in later))
        self.forward = _emitted(main, ops, feeds, [*fetches, *self.kept], device).function
        self.backward = _emitted(main, later, [*self.kept, *(one.name for one in starts)], names, device).function


def _leading_to(ops: Sequence[Operator], names: Sequence[str]) -> list[Operator]:
    wanted, kept = set(names), []
    for op in reversed(ops):
        if wanted & set(op.output_names):
            kept.append(op)
            wanted |= set(op.input_names)
    return kept[::-1]


class _WithGradient(torch.autograd.Function):
    """One call of a layer, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = plan.forward(*tensors)
        ctx.plan = plan
        outs = found[: plan.num_outs]
        # A result is known to come from the arguments, which what is kept need not be; it is kept for that alone.
        ctx.save_for_backward(*found[plan.num_outs :], *(() if plan.is_seen else [outs[plan.outs[0]]]))
        ctx.mark_non_differentiable(*(one for place, one in enumerate(outs) if place not in plan.outs))
        return outs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        plan: _Plan = ctx.plan
        saved = ctx.saved_tensors
        given = [*saved[: len(plan.kept)], *(grads[place].contiguous() for place in plan.outs)]
        if plan.is_seen or not torch.is_grad_enabled():
            found = plan.backward(*given)
        else:
            found = _Once.apply(plan, saved[-1], *given)  # type: ignore[no-untyped-call]
        return None, *(None if place is None else found[place] for place in plan.places)


class _Once(torch.autograd.Function):
    """Gradients whose own gradients are refused, once they are asked for."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, result: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:  # noqa: ARG004
        ctx.plan = plan
        return tuple(plan.backward(*given))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG004
        raise NotSupportedError(
            f"{ctx.plan.what} cannot be differentiated twice; use a function of torch.nn.functional in its place"
        )
