"""`append_backward`: gradient operators for everything that a loss depends on, added to its program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.backward.differentiation import Walk, depending, is_trained
from fleet_programs.backward.gradient_parts import Parts
from fleet_programs.definition.operator import BACKWARD, OPTIMIZE
from fleet_programs.expressions.names import grad_name
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Parameter, Variable

ParamsGrads = list[tuple[Parameter, Variable]]


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Parameter | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
    callbacks: Sequence[Callable[..., Any]] | None = None,
) -> ParamsGrads:
    """Add gradient operators; returns (parameter, gradient) for each trainable parameter that the loss depends on.

    The gradient of `x` is the variable `x@GRAD`. Where a variable is used more than once, the parts are named
    `x@GRAD@RENAME@0`, ... and a `sum` adds them. `callbacks` are called with (block, {}) after each operator added.
    """
    if not isinstance(loss, Variable):
        raise UsageTypeError(f"loss must be a Variable, got {type(loss).__name__}")
    if loss.shape not in ((1,), ()):
        raise UsageError(
            f"loss {loss.name!r} must have one element, got shape {list(loss.shape)}; take layers.mean() of it"
        )
    block = _outermost(loss, "loss")
    if _is_minimized(loss):
        raise UsageError(f"an optimizer minimizes {loss.name!r} already; call minimize() of one, once")
    wanted = _wanted(block, parameter_list)
    blocked = {one if isinstance(one, str) else one.name for one in no_grad_set or ()}
    with block.program.adding(BACKWARD):
        found = _add(block, [(loss, None)], blocked, callbacks or ())
    return [
        (parameter, block.vars[found[parameter.name]])
        for parameter in wanted
        if parameter.name in found and parameter.name not in blocked
    ]


def _outermost(var: Variable, what: str) -> Block:
    if var.block.index:
        raise UsageError(
            f"{what}: {var.name!r} is of block {var.block.index}, inside a branch or a loop; gradients begin outside: "
            "return it from there first"
        )
    return var.block


def _is_minimized(loss: Variable) -> bool:
    """Whether parameters are updated by the gradients of a loss; `gradients()` alone changes nothing."""
    reached = {grad_name(loss.name)}
    for op in loss.block.ops:
        if op.role in (BACKWARD, OPTIMIZE) and reached.intersection(op.input_names):
            if op.output("ParamOut"):
                return True
            reached.update(op.output_names)
    return False


def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> list[Variable | None]:
    """The gradients of some variables with respect to others; None where there is none."""
    several = [targets] if isinstance(targets, Variable) else list(targets)
    given = (
        [target_gradients]
        if isinstance(target_gradients, Variable)
        else list(target_gradients or [None] * len(several))
    )
    if len(given) != len(several):
        raise UsageError(f"target_gradients must be as many as targets, got {len(given)} for {len(several)}")
    wanted = [inputs] if isinstance(inputs, Variable) else list(inputs)
    block = _outermost(several[0], "targets")
    blocked = {one if isinstance(one, str) else one.name for one in no_grad_set or ()}
    with block.program.adding(BACKWARD):
        found = _add(block, list(zip(several, given, strict=True)), blocked, (), {one.name for one in wanted})
    return [block.vars[found[one.name]] if one.name in found else None for one in wanted]


def _wanted(block: Block, given: Sequence[Parameter | str] | None) -> list[Parameter]:
    if given is None:
        return [parameter for parameter in block.program.all_parameters() if is_trained(parameter)]
    found = []
    for one in given:
        var = block.var(one) if isinstance(one, str) else one
        if not isinstance(var, Parameter):
            raise UsageTypeError(f"parameter_list must hold parameters, got {one!r}")
        found.append(var)
    return [parameter for parameter in found if is_trained(parameter)]


def _add(
    block: Block,
    targets: Sequence[tuple[Variable, Variable | None]],
    blocked: set[str],
    callbacks: Sequence[Callable[..., Any]],
    also: set[str] | None = None,
) -> dict[str, str]:
    """Add the operators; the name of the gradient of each variable that has one."""
    ops = list(block.ops)
    live = depending(block, ops, blocked, also or set())
    parts = Parts(block, callbacks)
    for target, given in targets:
        name = parts.new(target.name)
        if given is None and -1 in target.shape:  # its size is known when the batch is
            parts.append("fill_any_like", {"X": target}, {"Out": name}, {"value": 1.0})
        elif given is None:
            attrs = {"shape": list(target.shape), "value": 1.0, "dtype": target.dtype}
            parts.append("fill_constant", {}, {"Out": name}, attrs)
        else:
            parts.append("assign", {"X": given}, {"Out": name}, {})
    Walk(block, ops, parts, live, blocked).back()
    return parts.totals()
