"""What a kernel can know when it is made, and kernels of gradients that nobody has written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from fleet.errors import NotSupportedError
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Kernel, definition

if TYPE_CHECKING:
    from fleet_programs.definition.kinds import Shape
    from fleet_programs.executor.emit import Step
    from fleet_programs.executor.scope import Scope
    from fleet_programs.program.block import Block
    from fleet_programs.program.variable import Variable


Body = Callable[..., tuple[Any, ...]]
CompileBody = Callable[["Lowering", int, Sequence[str], Sequence[str]], Body]


class Lowering:
    """One program on its way to a function of torch."""

    def __init__(
        self,
        block: Block,
        device: torch.device,
        scope: Scope,
        *,
        is_handed_on: bool = False,
        compile_body: CompileBody | None = None,
    ) -> None:
        self.block = block
        self.program = block.program
        self.device = device
        self.scope = scope
        self.is_handed_on = is_handed_on
        """Whether torch.compile or a CUDA graph gets the kernels, which then may keep nothing between runs."""
        self._compile_body = compile_body
        self.bodies: list[Step] = []
        """The blocks that were compiled for operators of this one, and for operators of theirs."""

    def var(self, name: str) -> Variable:
        """A variable by its name."""
        return self.block.var(name)

    def shape(self, name: str) -> Shape:
        """The declared shape of a variable; -1 is a size that a batch decides."""
        return self.block.var(name).shape

    def dtype(self, name: str) -> str:
        """The declared type of a variable's values."""
        return self.block.var(name).dtype

    def body(self, index: int, given: Sequence[str], wanted: Sequence[str]) -> Body:
        """A block that an operator runs, as a function of the variables `given`, that gives those `wanted`."""
        if self._compile_body is None:
            raise NotSupportedError("loops and branches are for programs; with tensors use those of Python")
        return self._compile_body(self, index, given, wanted)

    @property
    def generator(self) -> torch.Generator | None:
        """For random kernels: begun at the program's seed, or torch's own if that is 0.

        However often a program is compiled for a scope, its random numbers go on.
        """
        if not self.program.random_seed:
            return None
        key = (self.program.serial, self.program.random_seed, str(self.device))
        if key not in self.scope.generators:
            made = torch.Generator(self.device)
            self.scope.generators[key] = made.manual_seed(self.program.random_seed)
        return self.scope.generators[key]

    def kernel(self, op: Operator) -> Kernel:
        """The kernel of an operator."""
        known = definition(op.type)
        if known.make is not None:
            return known.make(op, self)
        assert known.grad_of is not None, op.type
        return self._by_autograd(op, known.grad_of)

    def _by_autograd(self, op: Operator, forward_type: str) -> Kernel:
        """Run the forward kernel again, under autograd: for gradients that are not worth a kernel of their own."""
        forward = definition(forward_type)
        grad = forward.grad
        assert grad is not None
        missing = [
            slot
            for slot in (marked.rstrip("*") for marked in forward.inputs if not marked.endswith("?"))
            if slot not in grad.needs
        ]
        if missing or forward.is_random:
            raise NotSupportedError(f"operator {op.type} needs a kernel of its own")
        slots = list(forward.input_slots)
        inputs = {slot: op.input(slot) for slot in slots}
        twin = Operator(forward_type, inputs, {slot: ["_"] for slot in forward.output_slots}, op.attrs)
        kernel = self.kernel(twin)
        num_needs = sum(len(op.input(slot)) for slot in grad.needs)
        order = [name for slot in grad.needs for name in op.input(slot)]
        places = [order.index(name) for slot in slots for name in inputs[slot]]
        owner = [slot for slot in slots for _ in inputs[slot]]
        wanted = [
            place
            for slot in grad.wrt
            if op.output(f"{slot}@GRAD")
            for place in range(len(owner))
            if owner[place] == slot  # by place: a variable may be given twice, and each use has its own part
        ]

        def run(*tensors: torch.Tensor) -> Any:
            with torch.enable_grad():
                given = [tensors[place].detach() for place in places]
                leaves = [given[index].requires_grad_() for index in wanted]
                made = kernel(*given)
            outs: Sequence[torch.Tensor] = [made] if isinstance(made, torch.Tensor) else made
            found = torch.autograd.grad(
                list(outs)[: len(tensors) - num_needs], leaves, tensors[num_needs:], allow_unused=True
            )
            given_or_zeros = zip(cast("Sequence[torch.Tensor | None]", found), leaves, strict=True)
            zeroed = [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in given_or_zeros]
            return zeroed[0] if len(zeroed) == 1 else tuple(zeroed)

        return run
