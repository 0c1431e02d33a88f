"""Update operators: what they have in common, and those of SGD and momentum. The formulas are those of `torch.optim`.

An update changes a parameter and its accumulators in place:

    Param, Grad, LearningRate, <accumulators> -> ParamOut, <accumulators>Out

A rule is written once, for dense tensors: `rule(param, grad, rate, *accumulators)`. A gradient of rows changes only the
rows that it has: equal rows are added, those of the parameter and of its accumulators gathered, changed by the same
rule and written back. `Step` counts updates: one number for the whole parameter, or, where the optimizer met a gradient
of rows, one for each row, as tables on servers count.

On the CPU a rate is a number; on other devices it stays a tensor, because reading it would be a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable

Rate = float | torch.Tensor
STEP = "Step"
PENALTY = {"regularization_method": "", "regularization_coeff": 0.0}
METHODS = ("", "l2_decay", "l1_decay")
MOMENTUM = {"mu": 0.9, "use_nesterov": False}


Rule = Callable[..., None]
"""One update, in place: `rule(param, grad, rate, *accumulators)`. The gradient must stay as it is."""

MakeRule = Callable[[Operator, Lowering], Rule]


def register_update(
    type: str,
    state: tuple[str, ...] = (),
    attrs: Mapping[str, Any] | None = None,
    *,
    check: Callable[[Infer], None] | None = None,
    on_rows: Kernel | None = None,
) -> Callable[[MakeRule], MakeRule]:
    """Define an update operator; the decorated function makes its rule.

    `on_rows` is a shorter way for a gradient of rows without a penalty; `check` sees to slots that go with attributes.
    """

    def infer(infer: Infer) -> None:
        _infer(infer)
        if check is not None:
            check(infer)

    def add(make: MakeRule) -> MakeRule:
        @register(
            type,
            inputs=("Param", "Grad", "LearningRate", *state),
            outputs=("ParamOut", *(f"{slot.rstrip('?')}Out{'?' * slot.endswith('?')}" for slot in state)),
            attrs={**(attrs or {}), **PENALTY},
            infer=infer,
            takes_rows=True,
        )
        def _(op: Operator, lowering: Lowering) -> Kernel:
            kernel = _with_penalty(make(op, lowering), op)
            if is_sparse(op, lowering):
                kernel = on_rows if on_rows and not _has_penalty(op) else _on_rows(kernel, _is_per_row(op, lowering))
            return _with_number(kernel) if lowering.device.type == "cpu" else kernel

        return make

    return add


def is_sparse(op: Operator, lowering: Lowering) -> bool:
    """Whether the gradient of an update has rows only."""
    return lowering.var(op.input("Grad")[0]).kind == ROWS


def counts_rows(op: Operator, lowering: Lowering) -> bool:
    """Whether `Step` has a count for each row of the parameter; where that has one row, a sparse gradient decides."""
    shape = lowering.shape(op.input(STEP)[0])
    return shape == lowering.shape(op.input("Param")[0])[:1] and (shape != (1,) or is_sparse(op, lowering))


def subtract_(param: torch.Tensor, change: torch.Tensor, rate: Rate) -> None:
    """param -= rate * change"""
    if isinstance(rate, float):
        param.add_(change, alpha=-rate)
    else:
        param.sub_(change * rate.to(change.dtype))


def _with_number(kernel: Kernel) -> Kernel:
    return lambda param, grad, rate, *state: kernel(param, grad, rate.item(), *state)


def _with_penalty(rule: Rule, op: Operator) -> Rule:
    method, coeff = op.attr("regularization_method"), op.attr("regularization_coeff")
    if not _has_penalty(op):
        return rule
    if method == "l2_decay":
        return lambda param, grad, rate, *state: rule(param, grad.add(param, alpha=coeff), rate, *state)
    return lambda param, grad, rate, *state: rule(param, grad.add(param.sign(), alpha=coeff), rate, *state)


def _has_penalty(op: Operator) -> bool:
    return bool(op.attr("regularization_method") and op.attr("regularization_coeff"))


def _is_per_row(op: Operator, lowering: Lowering) -> list[bool]:
    return [
        slot != STEP or counts_rows(op, lowering) for slot in op.inputs if slot not in ("Param", "Grad", "LearningRate")
    ]


def _on_rows(rule: Rule, is_per_row: list[bool]) -> Kernel:
    def update(param: torch.Tensor, grad: Rows, rate: Rate, *state: torch.Tensor) -> None:
        rows = grad.merged()
        index = rows.index.long()
        whole = [param, *(one for one, has_rows in zip(state, is_per_row, strict=True) if has_rows)]
        parts = [one.index_select(0, index) for one in whole]
        others = iter(parts[1:])
        rule(
            parts[0],
            rows.values,
            rate,
            *(next(others) if has_rows else one for one, has_rows in zip(state, is_per_row, strict=True)),
        )
        for one, part in zip(whole, parts, strict=True):
            one.index_copy_(0, index, part)

    return update


def _infer(infer: Infer) -> None:
    param, grad, rate = infer.var("Param"), infer.var("Grad"), infer.var("LearningRate")
    if param.dtype not in FLOATS:
        raise infer.fail(f"Param {param.name!r} must be a float, got {param.dtype}")
    _require_shape(infer, grad, param)
    if rate.shape not in ((1,), ()):
        raise infer.fail(f"LearningRate {rate.name!r} must have one element, got shape {list(rate.shape)}")
    for slot, names in infer.op.inputs.items():
        if slot in ("Grad", "LearningRate"):
            continue
        outs = infer.op.output(f"{slot}Out")
        if outs != names:
            raise infer.fail(f"{slot}Out must be {names}, which is changed in place, got {outs}")
        if slot != STEP:
            _require_shape(infer, infer.var(slot), param)
        elif (step := infer.var(slot)).dtype != "float32" or step.shape not in ((1,), param.shape[:1]):
            raise infer.fail(
                f"Step {step.name!r} must be float32 of shape [1], or {list(param.shape[:1])} to count for each row of "
                f"Param {param.name!r}, got {step.dtype} of {list(step.shape)}"
            )
    if infer.attr("regularization_method") not in METHODS:
        raise infer.fail(
            f"regularization_method must be l2_decay, l1_decay or nothing, got {infer.attr('regularization_method')!r}"
        )


def _require_shape(infer: Infer, var: Variable, param: Variable) -> None:
    if var.shape != param.shape or var.dtype != param.dtype:
        raise infer.fail(
            f"{var.name!r} must be as Param {param.name!r}, {param.dtype} of shape {list(param.shape)}, "
            f"got {var.dtype} of {list(var.shape)}"
        )


def _add_rows(param: torch.Tensor, grad: Rows, rate: Rate) -> None:
    if isinstance(rate, float):
        param.index_add_(0, grad.index, grad.values, alpha=-rate)
    else:
        param.index_add_(0, grad.index, grad.values * rate.to(param.dtype), alpha=-1)


@register_update("sgd", on_rows=_add_rows)
def _sgd(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    return subtract_


@register_update("momentum", ("Velocity",), MOMENTUM)
def _momentum(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    momentum, is_nesterov = op.attr("mu"), op.attr("use_nesterov")

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, velocity: torch.Tensor) -> None:
        velocity.mul_(momentum).add_(grad)
        subtract_(param, grad.add(velocity, alpha=momentum) if is_nesterov else velocity, rate)

    return update
