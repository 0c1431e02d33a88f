"""Operators that are one function of tensors: it is their kernel, and it says what shapes they give.

Shapes are found by calling the function on tensors without values (torch's device "meta"), twice with other numbers in
place of the sizes that a batch decides: what then differs is for the batch to decide, too. Gradients are autograd's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import torch

from fleet.errors import FleetError, UsageError
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Definition, Grad, Infer, Kernel, definition
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.operators.common.making import computes, view
from fleet_programs.program.variable import Variable

PROBES = (240, 480)
"""What stands for sizes that a batch decides: numbers that most others divide, as functions may ask for that."""
_FEW = 2


def computed(
    type: str,
    v2: str = "",
    attrs: Mapping[str, Any] | None = None,
    *,
    inputs: tuple[str, ...] = ("X",),
    outputs: tuple[str, ...] = ("Out",),
    wrt: tuple[str, ...] = ("X",),
    outs: tuple[str, ...] | None = None,
    values: tuple[str, ...] = (),
    infer: Callable[[Infer], None] | None = None,
    **how: Any,
) -> Callable[[Kernel], Kernel]:
    """Define an operator by the decorated function of tensors, one for each input slot, and of attributes.

    A slot that was left out is None, one of several variables a list. `wrt` are the slots that get a gradient, `outs`
    those whose gradient counts, all unless given. `values` are slots of whole numbers that decide about shapes: in the
    tries their variables are 1, 2, 3 and so on, then 2, 4, 6. `infer` finds shapes where a tensor without values
    cannot. The rest is what `fleet_programs.operators.common.making.computes` takes. A number is of shape [1], as
    everywhere in programs.
    """

    def define(function: Kernel) -> Kernel:
        def make(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
            return _kernel(function, op)

        slots = tuple(one.rstrip("?*") for one in inputs)
        made = computes(
            type,
            infer or (lambda given: _infer(function, given, values)),
            attrs=attrs,
            v2=v2,
            inputs=inputs,
            outputs=outputs,
            grad=Grad(needs=slots, wrt=wrt, outs=outs) if wrt else None,
            around=view if len(outputs) == 1 and not outputs[0].endswith("*") else None,
            make=make,
            **how,
        )
        return made(function)

    return define


def add(type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] | None = None, name: str | None = None) -> Any:
    """Add an operator and return its results: one variable, or a tuple. What is None is left out."""
    layer, known = LayerBuilder(type, name), definition(type)
    given = {slot: one for slot, one in inputs.items() if one is not None}
    for slot, one in given.items():
        for each in one if isinstance(one, list | tuple) else [one]:
            layer.variable(each, slot)
    first = next(each for one in given.values() for each in (one if isinstance(one, list | tuple) else [one]))
    made = {slot: layer.temporary(first.dtype) for slot in known.output_slots}
    layer.op(type, given, made, {what: value for what, value in (attrs or {}).items() if value is not None})
    for slot, one in made.items():
        one.stop_gradient = known.grad is None or slot not in (known.grad.outs or made)
    found = tuple(made.values())
    return found if len(found) > 1 else found[0]


def _kernel(function: Kernel, op: Operator) -> Kernel:
    known = definition(op.type)
    attrs = {name: op.attr(name) for name in known.attrs}
    counts = [len(op.input(slot)) for slot in known.input_slots]
    if all(mark == "" for mark in known.input_slots.values()):
        run = partial(function, **attrs)
        return lambda *tensors: _numbers_of_one(run(*tensors))
    return lambda *tensors: _numbers_of_one(function(*_placed(known, counts, iter(tensors)), **attrs))


def _numbers_of_one(made: Any) -> Any:
    if isinstance(made, torch.Tensor):
        return made.view(1) if made.dim() == 0 else made
    return tuple(_numbers_of_one(one) for one in made)


def _placed(known: Definition, counts: Sequence[int], left: Iterator[Any]) -> list[Any]:
    """What the slots hold: a tensor, None, or a list."""
    marks = known.input_slots.values()
    return [
        list(islice(left, count)) if mark == "*" else next(left) if count else None
        for mark, count in zip(marks, counts, strict=True)
    ]


def _infer(function: Kernel, infer: Infer, values: tuple[str, ...]) -> None:
    given = _Given(function, infer, values)
    tries = _by_probes(given) if given.is_open else [given.tried(0)]
    for slot, index, tensors in zip(*_outputs(infer), zip(*tries, strict=True), strict=False):
        shape = [first if len(set(rest)) == 1 else -1 for first, *rest in _together(tensors)]
        infer.set(slot, shape, canonical(tensors[0].dtype), index=index)


class _Given:
    """A function and what an operator gives it, to be tried with sizes in place of those that a batch decides."""

    def __init__(self, function: Kernel, infer: Infer, values: tuple[str, ...]) -> None:
        self.function, self.infer, self.values = function, infer, values
        self.known = definition(infer.op.type)
        self.several = {slot: infer.vars(slot) for slot in self.known.input_slots}
        self.sizes = {size for one in self.several.values() for var in one for size in var.shape}
        self.is_open = -1 in self.sizes or any(self.several[slot] for slot in values)

    def tried(self, probe: int, value: int = 1) -> list[torch.Tensor]:
        """What comes out; UsageError with torch's line if it refuses."""
        infer, slots = self.infer, self.several
        attrs = {name: infer.attr(name) for name in self.known.attrs}
        tensors = (
            torch.full(_sizes(var, probe), value * place) if slot in self.values else _empty(var, probe)
            for slot, several in slots.items()
            for place, var in enumerate(several, 1)
        )
        counts = [len(several) for several in slots.values()]
        try:
            made = _numbers_of_one(self.function(*_placed(self.known, counts, tensors), **attrs))
        except FleetError as error:
            raise infer.fail(str(error).removeprefix(f"{infer.op.type}: ")) from None
        except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            told = str(error).partition("\n")[0]
            raise infer.fail(told.replace(str(probe), "-1") if probe in PROBES else told) from None
        return [made] if isinstance(made, torch.Tensor) else list(made)


def _by_probes(given: _Given) -> list[list[torch.Tensor]]:
    """What comes out for one size after the other; where that must be one of those that are known, for it alone."""
    try:
        tries = [given.tried(probe, value) for value, probe in enumerate(PROBES, 1)]
    except UsageError:
        for size in sorted((given.sizes - {-1}) | _numbers(given.infer)):
            with suppress(UsageError):
                return [given.tried(size)]
        raise
    with suppress(UsageError):  # few places may be too few, and where they are not, a least size shows
        tries.append(given.tried(_FEW))
    return tries


def _numbers(infer: Infer) -> set[int]:
    """The sizes that attributes name."""
    lists = [one for one in infer.op.attrs.values() if isinstance(one, list | tuple)]
    return {one for several in lists for one in several if type(one) is int and one > 0}


def _together(tensors: Sequence[torch.Tensor]) -> list[tuple[int, ...]]:
    """The first size of each dimension, then those of all tries."""
    return [(sizes[0], *sizes) for sizes in zip(*(one.shape for one in tensors), strict=True)]


def _outputs(infer: Infer) -> tuple[list[str], list[int]]:
    pairs = [
        (slot, index)
        for slot in definition(infer.op.type).output_slots
        for index in range(len(infer.op.outputs.get(slot, ())))
    ]
    return [slot for slot, _ in pairs], [index for _, index in pairs]


def _sizes(var: Variable, probe: int) -> list[int]:
    return [probe if size < 0 else size for size in var.shape]


def _empty(var: Variable, probe: int) -> torch.Tensor:
    return torch.empty(_sizes(var, probe), dtype=torch_dtype(var.dtype), device="meta")
