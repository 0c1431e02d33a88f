"""What every type of operator is: its slots, attributes, shapes, kernel and gradient. One definition for each type.

An op is defined where its kernel is, in `fleet_programs.operators`:

    @register("relu", inputs=("X",), outputs=("Out",), infer=same_as("X"), grad=Grad(needs=("Out",), wrt=("X",)))
    def _relu(op: Operator, lowering: Lowering) -> Kernel:
        return torch.relu

    @register_grad("relu")
    def _relu_grad(op: Operator, lowering: Lowering) -> Kernel:
        return lambda out, grad: torch.ops.aten.threshold_backward(grad, out, 0)

One whose kernel is a function of tensors and attributes, and no more, is defined by it: see `ops.making.computes`.

Slots: "X" holds one variable, "X?" at most one, "X*" any number. A function that is registered makes the kernel of one
operator when a program is compiled, so attributes are looked at once. A kernel takes the tensors of all inputs in the
order of the slots (those of a slot that was left out are left out) and returns those outputs that it does not change in
place, in their order: nothing, one tensor, or a tuple. A variable that is in an input slot and in an output slot is
changed in place, which only operators do that say so: by a slot `MeanOut` beside a slot `Mean`, or `in_place=True`; one
that `rebinds` returns it instead, as a new tensor.

A kernel of a gradient takes the variables of `needs`, then the gradients of the op's outputs; it returns a gradient for
each variable of `wrt` that needs one (`op.outputs` tells which), in the order of `wrt`. An op without a registered
gradient kernel has one made by autograd, which runs the forward kernel once more. One that finds what autograd would
find says so, `as_autograd=True`: where the forward kernel runs on tensors that autograd watches, that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from fleet.errors import UsageError
from fleet_programs.definition import extensions
from fleet_programs.definition.infer import Infer as Infer
from fleet_programs.definition.infer import as_variables
from fleet_programs.definition.infer import may_equal as may_equal
from fleet_programs.definition.infer import same_as as same_as

if TYPE_CHECKING:
    from fleet_programs.definition.operator import Operator
    from fleet_programs.kernel.lowering import Lowering

Kernel = Callable[..., Any]
MakeKernel = Callable[["Operator", "Lowering"], Kernel]


@dataclass(frozen=True)
class Grad:
    """How an op's gradient op reads."""

    needs: tuple[str, ...] = ()
    """Input and output slots of the op that its gradient reads."""
    wrt: tuple[str, ...] = ("X",)
    """Input slots that get a gradient."""
    outs: tuple[str, ...] | None = None
    """Output slots whose gradients are read; without it all. One that nobody uses is given as zeros."""


@dataclass(frozen=True)
class Calls:
    """How scripts call an operator, from which layers, functions and layer classes are made. See `spelling`."""

    doc: str = ""
    """What layers and functions say of themselves; if empty, the docstring of what makes the kernel."""
    v1: str = ""
    """The layer of PaddlePaddle 1.x, which is also Fleet's: `softshrink(x, alpha->lambda=0.5)`; none if empty."""
    v2: str = ""
    """The function of PaddlePaddle 2.0: `softshrink(x, threshold->lambda=0.5, name)`."""
    torch: Callable[..., Any] | None = None
    """What 2.0's function is on tensors: it takes that function's arguments, `name` left out.

    Of a layer alone, what it is on tensors that need no laying out.
    """
    layer: str = ""
    """The layer class of 2.0 that calls the function: `Softshrink`."""
    to_attrs: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Makes the attributes from the arguments, where that is more than taking their types."""
    returns: tuple[str, ...] = ()
    """The output slots that it returns, several as a tuple; the first alone if empty."""
    keeps: Callable[[list[Any], dict[str, Any]], bool] | None = None
    """Whether variables and attributes are such that the last output, `XShape?` or the like, is needed."""
    kind: str = ""
    """The stem of the layer's name, where that is not the operator's type."""
    is_sign: bool = False
    """Whether a sign between variables means it, as + does: then 2.0's function takes numbers and mixed types too."""


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
    takes_rows: bool = False
    """Whether its kernel takes the gradient of a sparse lookup, which is no tensor."""
    takes_arrays: bool = False
    """Whether it takes variables of kind "array"."""
    blocks: tuple[str, ...] = ()
    """The attributes that name blocks of the program, which it runs; -1 is none. See `bodies`."""
    calls: tuple[Calls, ...] = ()
    """How scripts call it; most in one way, and none if only passes make it."""
    as_autograd: bool = False
    """Of a gradient: whether autograd sees through the forward kernel and finds the same."""
    once: bool = False
    """Of a gradient: whether its kernel works in memory that autograd would need to differentiate it in turn."""
    input_slots: dict[str, str] = field(init=False)
    """Slot to "", "?" or "*"."""
    output_slots: dict[str, str] = field(init=False)
    slots: dict[str, str] = field(init=False)
    """Both."""

    def __post_init__(self) -> None:
        self.input_slots, self.output_slots = (
            {slot.rstrip("?*"): slot[len(slot.rstrip("?*")) :] for slot in marked}
            for marked in (self.inputs, self.outputs)
        )
        self.slots = self.input_slots | self.output_slots


class Flags(TypedDict, total=False):
    """What `register` takes as they are; see `Definition`."""

    has_effect: bool
    is_random: bool
    in_place: bool
    rebinds: bool
    is_metric: bool
    takes_rows: bool
    takes_arrays: bool
    blocks: tuple[str, ...]


_definitions: dict[str, Definition] = {}


def register(
    type: str,
    *,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = ("Out",),
    attrs: Mapping[str, Any] | None = None,
    infer: Callable[[Infer], None] | None = None,
    grad: Grad | None = None,
    calls: Calls | Sequence[Calls] = (),
    **flags: Unpack[Flags],
) -> Callable[[MakeKernel], MakeKernel]:
    """Define an op; the decorated function makes its kernel."""

    def add(make: MakeKernel) -> MakeKernel:
        given = (calls,) if isinstance(calls, Calls) else calls
        said = tuple(one if one.doc else replace(one, doc=make.__doc__ or "") for one in given)
        _add(Definition(type, inputs, outputs, dict(attrs or {}), infer, make, grad, calls=said, **flags))
        if grad is not None:
            _add(_gradient_of(_definitions[type], grad))
        return make

    return add


def register_grad(
    type: str, *, infer: Callable[[Infer], None] | None = None, as_autograd: bool = False, once: bool = False
) -> Callable[[MakeKernel], MakeKernel]:
    """The decorated function makes the kernel of an op's gradient; gradients are shaped as their variables."""

    def add(make: MakeKernel) -> MakeKernel:
        gradient = _definitions[type + "_grad"]
        gradient.make, gradient.as_autograd, gradient.once = make, as_autograd, once
        gradient.infer = infer or gradient.infer
        return make

    return add


def definition(type: str) -> Definition:
    """The definition of a type; UsageError if there is none.

    Those of this package are there once `fleet_programs.operators` is, which blocks need: whoever has a program has
    them. Those of other packages are there once they are asked for; see `extensions`.
    """
    found = _definitions.get(type)
    if found is None:
        extensions.define()
        found = _definitions.get(type)
    if found is None:
        raise UsageError(
            f"there is no operator {type!r}; fleet_programs.operators.known() lists those there are; "
            "if another package defines it, import that package first"
        )
    return found


def definitions() -> list[Definition]:
    """Every definition, sorted by type; `fleet_programs.operators` has those of Fleet."""
    extensions.define()
    return defined()


def defined() -> list[Definition]:
    """Those that are there by now, sorted by type."""
    return [_definitions[type] for type in sorted(_definitions)]


def _add(new: Definition) -> None:
    assert new.type not in _definitions, f"op {new.type} is defined twice"
    _definitions[new.type] = new


def _gradient_of(forward: Definition, grad: Grad) -> Definition:
    marks = forward.slots
    outs = grad.outs if grad.outs is not None else tuple(forward.output_slots)
    inputs = tuple(slot + marks[slot] for slot in grad.needs) + tuple(f"{slot}@GRAD{marks[slot]}" for slot in outs)
    outputs = tuple(f"{slot}@GRAD" + ("*" if marks[slot] == "*" else "?") for slot in grad.wrt)
    made = Definition(f"{forward.type}_grad", inputs, outputs, forward.attrs, as_variables, None, None, forward.type)
    return replace(made, takes_arrays=forward.takes_arrays)
