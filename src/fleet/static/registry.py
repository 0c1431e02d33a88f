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

from fleet.errors import UsageError
from fleet.static.operator import Operator

if TYPE_CHECKING:
    from fleet.static.block import Block
    from fleet.static.executor.lowering import Lowering
    from fleet.static.variable import Shape, Variable

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
    known_op = definition(op.type)
    site = f"{op.callsite}: " if op.callsite else ""
    op.inputs = _checked_slots(op.type, site, op.inputs, known_op.inputs, "input")
    op.outputs = _checked_slots(op.type, site, op.outputs, known_op.outputs, "output")
    for name in op.attrs:
        if name not in known_op.attrs:
            raise UsageError(f"{site}operator {op.type} has no attribute {name!r}; it has {', '.join(known_op.attrs)}")
    for name in op.input_names:
        if not block.has_var(name):
            raise UsageError(f"{site}{op.type}: the program has no variable {name!r}")
    for name in op.output_names:
        if not block.has_var(name):
            block.create_var(name)
    if known_op.infer is not None:
        known_op.infer(Infer(op, block))
    _check_in_place(op, known_op, site)


def _check_in_place(op: Operator, known_op: Definition, site: str) -> None:
    if known_op.in_place or known_op.rebinds:
        return
    for slot, names in op.outputs.items():
        own = op.input(slot.removesuffix("Out"))
        for name in op.in_place.intersection(names) - set(own if slot.endswith("Out") else ()):
            raise UsageError(f"{site}{op.type} cannot write {name!r}, which it reads; give it another output")


def _checked_slots(
    type: str, site: str, given: Mapping[str, list[str]], wanted: Sequence[str], what: str
) -> dict[str, list[str]]:
    ordered: dict[str, list[str]] = {}
    for marked in wanted:
        slot = marked.rstrip("?*")
        mark = marked[len(slot) :]
        names = given.get(slot, [])
        if not names and mark in ("?", "*"):
            continue
        if not names or (len(names) > 1 and mark != "*"):
            raise UsageError(f"{site}operator {type}: {what} {slot} takes one variable, got {len(names)}")
        ordered[slot] = list(names)
    unknown = [slot for slot in given if slot not in {marked.rstrip("?*") for marked in wanted}]
    if unknown:
        raise UsageError(f"{site}operator {type} has no {what} {unknown[0]!r}; it has {', '.join(wanted) or 'none'}")
    return ordered


class Infer:
    """What an op's `infer` function works with: shapes and dtypes in, shapes and dtypes out."""

    def __init__(self, op: Operator, block: Block) -> None:
        self.op = op
        self.block = block

    def attr(self, name: str) -> Any:
        return self.op.attr(name)

    def has(self, slot: str) -> bool:
        """Whether an optional slot is there."""
        return bool(self.op.inputs.get(slot) or self.op.outputs.get(slot))

    def var(self, slot: str, index: int = 0) -> Variable:
        """A variable of an input slot."""
        return self.block.var(self.op.inputs[slot][index])

    def vars(self, slot: str) -> list[Variable]:
        return [self.block.var(name) for name in self.op.input(slot)]

    def shape(self, slot: str, index: int = 0) -> Shape:
        return self.var(slot, index).shape

    def dtype(self, slot: str, index: int = 0) -> str:
        return self.var(slot, index).dtype

    def set(
        self,
        slot: str,
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        index: int = 0,
        lod: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Give an output its shape, and its dtype unless it is to keep what it has."""
        names = self.op.outputs.get(slot)
        if not names:
            return
        var = self.block.var(names[index])
        if var.name in self.op.in_place:
            return
        var.shape = tuple(int(size) for size in shape)
        if dtype is not None:
            var.dtype = dtype
        if kind is not None:
            var.kind = kind
        if lod is not None:
            var.lod = lod

    def like(self, slot: str, other: str) -> None:
        """An output is shaped as an input, ragged as it is."""
        source = self.var(other)
        self.set(slot, source.shape, source.dtype, lod=source.lod)

    def fail(self, message: str) -> UsageError:
        """An error that begins with the line of the user's script: `raise infer.fail(...)`."""
        site = f"{self.op.callsite}: " if self.op.callsite else ""
        return UsageError(f"{site}{self.op.type}: {message}")

    def require_dtype(self, slot: str, allowed: frozenset[str]) -> None:
        """Fail unless the variables of a slot have one of some dtypes."""
        for var in self.vars(slot):
            if var.dtype not in allowed:
                raise self.fail(f"{slot} {var.name!r} must be {' or '.join(sorted(allowed))}, got {var.dtype}")

    def require_rank(self, slot: str, rank: int) -> None:
        """Fail unless a variable has so many dimensions."""
        var = self.var(slot)
        if len(var.shape) != rank:
            raise self.fail(f"{slot} {var.name!r} must have {rank} dimensions, got shape {list(var.shape)}")


def same_as(slot: str, out: str = "Out") -> Callable[[Infer], None]:
    """An `infer` for ops whose output is shaped as an input."""

    def infer(infer: Infer) -> None:
        infer.like(out, slot)

    return infer


def _infer_gradient(infer: Infer) -> None:
    """A gradient is shaped as its variable, whose name it carries."""
    for slot, names in infer.op.outputs.items():
        for index, name in enumerate(names):
            own = name.split("@GRAD")[0]
            if infer.block.has_var(own):
                source = infer.block.var(own)
                infer.set(slot, source.shape, source.dtype, index=index, lod=source.lod)
