"""`append_backward`: gradient operators for everything that a loss depends on, added to its program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet.static.block import Block
from fleet.static.dtypes import FLOATS
from fleet.static.names import GRAD, grad_name
from fleet.static.operator import BACKWARD, OPTIMIZE, Operator
from fleet.static.overwrites import Writers
from fleet.static.registry import definition
from fleet.static.variable import Parameter, Variable

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
    block = loss.block
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
    block = several[0].block
    blocked = {one if isinstance(one, str) else one.name for one in no_grad_set or ()}
    with block.program.adding(BACKWARD):
        found = _add(block, list(zip(several, given, strict=True)), blocked, (), {one.name for one in wanted})
    return [block.vars[found[one.name]] if one.name in found else None for one in wanted]


def _wanted(block: Block, given: Sequence[Parameter | str] | None) -> list[Parameter]:
    if given is None:
        return [parameter for parameter in block.program.all_parameters() if _is_trained(parameter)]
    found = []
    for one in given:
        var = block.var(one) if isinstance(one, str) else one
        if not isinstance(var, Parameter):
            raise UsageTypeError(f"parameter_list must hold parameters, got {one!r}")
        found.append(var)
    return [parameter for parameter in found if _is_trained(parameter)]


def _is_trained(var: Variable) -> bool:
    return isinstance(var, Parameter) and var.trainable and not var.stop_gradient


class _Parts:
    """The gradients found so far for each variable, under the names that they were written to."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._before = set(block.vars)
        self._names: dict[str, list[str]] = {}

    def name_of(self, name: str) -> str:
        """The name of a variable's gradient: another than those that the gradients of an earlier loss have."""
        whole, count = grad_name(name), 0
        while whole in self._before:
            count += 1
            whole = f"{grad_name(name)}@{count}"
        return whole

    def new(self, name: str) -> str:
        """A name for one more part of a variable's gradient."""
        parts = self._names.setdefault(name, [])
        parts.append(f"{self.name_of(name)}@RENAME@{len(parts)}" if parts else self.name_of(name))
        return parts[-1]

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def total(self, name: str, callbacks: Sequence[Callable[..., Any]]) -> str:
        """The gradient of a variable; its parts are added the first time this is asked for."""
        parts = self._names[name]
        total = self.name_of(name)
        if len(parts) > 1:
            first = parts[0]
            if first == total:  # the first part was written under the name that the sum will have
                parts[0] = f"{total}@RENAME@0"
                _rename_output(self._block, total, parts[0])
            self._append("sum", {"X": list(parts)}, {"Out": total}, {}, callbacks)
            self._names[name] = [total]
        return total

    def _append(
        self, type: str, inputs: Any, outputs: Any, attrs: Any, callbacks: Sequence[Callable[..., Any]]
    ) -> Operator:
        op = self._block.append_op(type, inputs, outputs, attrs)
        for callback in callbacks:
            callback(self._block, {})
        return op


def _add(
    block: Block,
    targets: Sequence[tuple[Variable, Variable | None]],
    blocked: set[str],
    callbacks: Sequence[Callable[..., Any]],
    also: set[str] | None = None,
) -> dict[str, str]:
    """Add the operators; the name of the gradient of each variable that has one."""
    ops = list(block.ops)
    live = _depending(block, ops, blocked, also or set())
    parts = _Parts(block)
    for target, given in targets:
        name = parts.new(target.name)
        if given is None and -1 in target.shape:  # its size is known when the batch is
            parts._append("fill_any_like", {"X": target}, {"Out": name}, {"value": 1.0}, callbacks)
        elif given is None:
            attrs = {"shape": list(target.shape), "value": 1.0, "dtype": target.dtype}
            parts._append("fill_constant", {}, {"Out": name}, attrs, callbacks)
        else:
            parts._append("assign", {"X": given}, {"Out": name}, {}, callbacks)
    writers = Writers(ops)
    for index in reversed(range(len(ops))):
        op = ops[index]
        if any(name in parts for name in op.output_names) and any(name in live for name in op.input_names):
            writers.check(index, {name for name in op.output_names if name in parts})
            _differentiate(op, parts, live, callbacks)
    return {name: parts.total(name, callbacks) for name in list(parts._names)}


def _depending(block: Block, ops: Sequence[Operator], blocked: set[str], also: set[str]) -> set[str]:
    """Variables that need a gradient: trainable parameters, what is computed from them, and those asked for."""
    live = {name for name, var in block.vars.items() if _is_trained(var) and name not in blocked} | also
    for op in ops:
        if definition(op.type).grad is None:
            continue
        if any(name in live for name in op.input_names):
            for name in op.output_names:
                var = block.var(name)
                if name not in blocked and not var.stop_gradient and var.dtype in FLOATS:
                    live.add(name)
    return live


def _differentiate(op: Operator, parts: _Parts, live: set[str], callbacks: Sequence[Callable[..., Any]]) -> None:
    known = definition(op.type)
    if known.grad is None:
        return
    wrt = {slot: list(op.input(slot)) for slot in known.grad.wrt}
    if not any(name in live for names in wrt.values() for name in names):
        return
    inputs: dict[str, list[str]] = {}
    for slot in known.grad.needs:
        names = op.input(slot) or op.output(slot)
        if names:
            inputs[slot] = names
    outs = known.grad.outs if known.grad.outs is not None else tuple(op.outputs)
    for slot in outs:
        names = op.output(slot)
        if names:
            inputs[slot + GRAD] = [_gradient_or_zeros(name, parts, callbacks) for name in names]
    outputs: dict[str, list[str]] = {}
    for slot, names in wrt.items():
        marks = known.slots[slot]
        if marks == "*":
            # The kernel gives a gradient for each; those nobody needs are written to names nobody reads.
            if any(name in live for name in names):
                outputs[slot + GRAD] = [parts.new(name) if name in live else f"{name}{GRAD}@UNUSED" for name in names]
        elif names and names[0] in live:
            outputs[slot + GRAD] = [parts.new(names[0])]
    parts._append(f"{op.type}_grad", inputs, outputs, op.attrs, callbacks)


def _gradient_or_zeros(name: str, parts: _Parts, callbacks: Sequence[Callable[..., Any]]) -> str:
    if name in parts:
        return parts.total(name, callbacks)
    zeros = parts.name_of(name)
    parts._append("fill_zeros_like", {"X": name}, {"Out": zeros}, {}, callbacks)
    return zeros


def _rename_output(block: Block, before: str, after: str) -> None:
    """The operator that wrote a gradient under its final name writes a part of it instead."""
    for op in block.ops:
        if before in op.output_names:
            op.outputs = {
                slot: [after if name == before else name for name in names] for slot, names in op.outputs.items()
            }
    var = block.vars[before]
    block.create_var(after, var.shape, var.dtype, kind=var.kind, lod=var.lod)
