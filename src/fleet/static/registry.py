"""What every type of operator is: its slots, attributes, shapes, kernel and gradient. One definition for each type.

An op is defined where its kernel is, in `fleet.static.ops`:

    @register("relu", inputs=("X",), outputs=("Out",), infer=same_as("X"), grad=Grad(needs=("Out",), wrt=("X",)))
    def _relu(op: Operator, lowering: Lowering) -> Kernel:
        return torch.relu

    @register_grad("relu")
    def _relu_grad(op: Operator, lowering: Lowering) -> Kernel:
        return lambda out, grad: torch.ops.aten.threshold_backward(grad, out, 0)

Slots: "X" holds one variable, "X?" at most one, "X*" any number. A function that is registered makes the kernel of one
operator when a program is compiled, so attributes are looked at once. A kernel takes the tensors of all inputs in the
order of the slots (those of a slot that was left out are left out) and returns those outputs that it does not change in
place, in their order: nothing, one tensor, or a tuple. A variable that is in an input slot and in an output slot is
changed in place, which only operators do that say so: by a slot `MeanOut` beside a slot `Mean`, or `in_place=True`; one
that `rebinds` returns it instead, as a new tensor.

A kernel of a gradient takes the variables of `needs`, then the gradients of the op's outputs; it returns a gradient for
each variable of `wrt` that needs one (`op.outputs` tells which), in the order of `wrt`. An op without a registered
gradient kernel has one made by autograd, which runs the forward kernel once more.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleet.errors import FleetError, UsageError
from fleet.static.attr_types import why_not
from fleet.static.infer import Infer as Infer
from fleet.static.infer import may_equal as may_equal
from fleet.static.infer import same_as as same_as
from fleet.static.infer import site_of
from fleet.static.operator import Operator

if TYPE_CHECKING:
    from fleet.static.block import Block
    from fleet.static.executor.lowering import Lowering

Kernel = Callable[..., Any]
MakeKernel = Callable[[Operator, "Lowering"], Kernel]


@dataclass(frozen=True)
class Grad:
    """How an op's gradient op reads."""

    needs: tuple[str, ...] = ()
    """Input and output slots of the op that its gradient reads."""
    wrt: tuple[str, ...] = ("X",)
    """Input slots that get a gradient."""
    outs: tuple[str, ...] | None = None
    """Output slots whose gradients are read; without it all. One that nobody uses is given as zeros."""


@dataclass
class Definition:
    """One type of operator."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    infer: Callable[[Infer], None] | None
    make: MakeKernel | None
    grad: Grad | None
    grad_of: str | None = None
    has_effect: bool = False
    """Whether it must run even if nobody reads what it writes."""
    is_random: bool = False
    in_place: bool = False
    """Whether its kernel changes a variable that is input and output, beyond those of slots `Mean` and `MeanOut`."""
    rebinds: bool = False
    """Whether its kernel returns a new tensor for a variable that is input and output."""
    is_metric: bool = False
    """Whether what it keeps only counts: a program that trains nothing runs it only for what is fetched."""
    slots: dict[str, str] = field(init=False)
    """Slot to "", "?" or "*"."""

    def __post_init__(self) -> None:
        self.slots = {slot.rstrip("?*"): slot[len(slot.rstrip("?*")) :] for slot in (*self.inputs, *self.outputs)}


_definitions: dict[str, Definition] = {}


def register(
    type: str,
    *,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = ("Out",),
    attrs: Mapping[str, Any] | None = None,
    infer: Callable[[Infer], None] | None = None,
    grad: Grad | None = None,
    has_effect: bool = False,
    is_random: bool = False,
    in_place: bool = False,
    rebinds: bool = False,
    is_metric: bool = False,
) -> Callable[[MakeKernel], MakeKernel]:
    """Define an op; the decorated function makes its kernel."""

    def add(make: MakeKernel) -> MakeKernel:
        _add(
            Definition(
                type,
                inputs,
                outputs,
                dict(attrs or {}),
                infer,
                make,
                grad,
                None,
                has_effect,
                is_random,
                in_place,
                rebinds,
                is_metric,
            )
        )
        if grad is not None:
            _add(_gradient_of(_definitions[type], grad))
        return make

    return add


def declare(type: str, provider: str, **more: Any) -> None:
    """Define an op whose kernel is in a module above this package: its `kernels` maps types to what makes them.

    Operators that talk to other processes are declared here, where programs are, and carried out where connections are.
    """

    @register(type, **more)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        made: Kernel = importlib.import_module(provider).kernels[op.type](op, lowering)
        return made


def register_grad(type: str, *, infer: Callable[[Infer], None] | None = None) -> Callable[[MakeKernel], MakeKernel]:
    """The decorated function makes the kernel of an op's gradient; gradients are shaped as their variables."""

    def add(make: MakeKernel) -> MakeKernel:
        gradient = _definitions[type + "_grad"]
        gradient.make = make
        gradient.infer = infer or gradient.infer
        return make

    return add


def definition(type: str) -> Definition:
    """The definition of a type; UsageError if there is none."""
    import fleet.static.ops  # noqa: F401 - defines them

    found = _definitions.get(type)
    if found is None:
        raise UsageError(f"there is no operator {type!r}; fleet.static.registry.known() lists those there are")
    return found


def known() -> list[str]:
    """Every type of operator, sorted."""
    import fleet.static.ops  # noqa: F401 - defines them

    return sorted(_definitions)


def _add(new: Definition) -> None:
    assert new.type not in _definitions, f"op {new.type} is defined twice"
    _definitions[new.type] = new


def _gradient_of(forward: Definition, grad: Grad) -> Definition:
    marks = forward.slots
    outs = grad.outs if grad.outs is not None else tuple(slot.rstrip("?*") for slot in forward.outputs)
    inputs = tuple(slot + marks[slot] for slot in grad.needs) + tuple(f"{slot}@GRAD{marks[slot]}" for slot in outs)
    outputs = tuple(f"{slot}@GRAD" + ("*" if marks[slot] == "*" else "?") for slot in grad.wrt)
    return Definition(f"{forward.type}_grad", inputs, outputs, forward.attrs, _infer_gradient, None, None, forward.type)


def complete(op: Operator, block: Block) -> None:
    """Check an operator against its definition, order its slots, and find the shapes of its outputs."""
    fit(op)
    for name in op.input_names:
        if not block.has_var(name):
            raise UsageError(f"{site_of(op)}{op.type}: the program has no variable {name!r}")
    for name in op.output_names:
        if not block.has_var(name):
            block.create_var(name)
    find_shapes(Infer(op, block))
    check_in_place(op)


def fit(op: Operator) -> None:
    """Put an operator's slots in the order of its definition; UsageError if they or its attributes do not fit that."""
    known_op = definition(op.type)
    op.inputs = _ordered(op, op.inputs, known_op.inputs, "input")
    op.outputs = _ordered(op, op.outputs, known_op.outputs, "output")
    for name, value in op.attrs.items():
        if name not in known_op.attrs:
            has = ", ".join(known_op.attrs) or "none"
            raise UsageError(f"{site_of(op)}operator {op.type} has no attribute {name!r}; it has {has}")
        reason = why_not(value, known_op.attrs[name])
        if reason:
            raise UsageError(f"{site_of(op)}{op.type}: attribute {name} {reason}")


def find_shapes(infer: Infer) -> None:
    """Run the `infer` of an operator's definition; UsageError whatever it stumbles over."""
    known_op = definition(infer.op.type)
    if known_op.infer is None:
        return
    try:
        known_op.infer(infer)
    except FleetError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        shapes = ", ".join(f"{name!r} {list(infer.block.var(name).shape)}" for name in infer.op.input_names)
        raise infer.fail(f"its inputs ({shapes or 'none'}) and attributes do not go together: {error}") from error


def check_in_place(op: Operator) -> None:
    """UsageError if an operator would write what it reads and has no kernel for that."""
    known_op = definition(op.type)
    if known_op.in_place or known_op.rebinds:
        return
    for slot, names in op.outputs.items():
        own = op.input(slot.removesuffix("Out"))
        for name in op.in_place.intersection(names) - set(own if slot.endswith("Out") else ()):
            raise UsageError(f"{site_of(op)}{op.type} cannot write {name!r}, which it reads; give it another output")


def _ordered(op: Operator, given: Mapping[str, list[str]], wanted: Sequence[str], what: str) -> dict[str, list[str]]:
    marks = {marked.rstrip("?*"): marked[len(marked.rstrip("?*")) :] for marked in wanted}
    for slot, mark in marks.items():
        count = len(given.get(slot, ()))
        if (count > 1 and mark != "*") or (count == 0 and not mark):
            raise UsageError(f"{site_of(op)}operator {op.type}: {what} {slot} takes one variable, got {count}")
    for slot in given:
        if slot not in marks:
            has = ", ".join(marks) or "none"
            raise UsageError(f"{site_of(op)}operator {op.type} has no {what} {slot!r}; it has {has}")
    return {slot: list(given[slot]) for slot in marks if given.get(slot)}


def _infer_gradient(infer: Infer) -> None:
    """A gradient is shaped as its variable, whose name it carries."""
    for slot, names in infer.op.outputs.items():
        for index, name in enumerate(names):
            own = name.split("@GRAD")[0]
            if infer.block.has_var(own):
                source = infer.block.var(own)
                infer.set(slot, source.shape, source.dtype, index=index, lod=source.lod)
