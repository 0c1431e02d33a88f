"""What must hold of every definition of an operator, whichever package has it."""

from __future__ import annotations

from fleet_programs.definition.registry import Definition, definition


def has_kernel(known: Definition) -> None:
    """Its own; or autograd's, which needs all that the forward kernel reads and the same random numbers."""
    if known.make is not None:
        return
    assert known.grad_of is not None, known.type
    forward = definition(known.grad_of)
    assert forward.grad is not None
    assert not forward.is_random, f"{known.type} needs a kernel of its own"
    required = {slot.rstrip("*") for slot in forward.inputs if not slot.endswith("?")}
    assert required <= set(forward.grad.needs), f"{known.type}: autograd needs all inputs"


def names_slots_that_exist(known: Definition) -> None:
    """Each once, and those of its gradient among them."""
    inputs, outputs = ([slot.rstrip("?*") for slot in slots] for slots in (known.inputs, known.outputs))
    assert len(set(inputs)) == len(inputs), known.type
    assert len(set(outputs)) == len(outputs), known.type
    assert not (known.in_place and known.rebinds), known.type
    if known.grad is None:
        return
    assert set(known.grad.needs) <= {*inputs, *outputs}, known.type
    assert set(known.grad.wrt) <= set(inputs), known.type
    assert known.grad.wrt, known.type
    assert set(known.grad.outs or ()) <= set(outputs), known.type
    gradient = definition(f"{known.type}_grad")
    assert gradient.grad_of == known.type
    assert gradient.grad is None
