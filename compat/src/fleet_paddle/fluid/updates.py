"""The updates of an optimizer of programs, for tensors: its operators over parameters and gradients, compiled once.

What an update keeps has the name that it has in a program, such as `linear_0.w_0_moment1_0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_programs.definition.dtypes import canonical
from fleet_programs.definition.kinds import ROWS, TENSOR
from fleet_programs.executor.compile import compile_block
from fleet_programs.executor.emit import Step
from fleet_programs.executor.scope import Scope
from fleet_programs.expressions import names
from fleet_programs.kernel.rows import Rows
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Parameter as Declared
from fleet_programs.program.variable import Variable

Pairs = list[tuple[Any, Any]]
Add = Callable[[list[tuple[Declared, Variable]]], str]
"""Adds updates of (parameter, gradient) pairs to their program; gives the name of the learning rate."""

MAX_STEPS = 256
"""Sets of parameters with gradients that updates are remembered for; then it begins anew. What they keep stays."""

_DETACHED: Any = torch.Tensor.detach


class Updates:
    """Parameters by name, what is kept for them, and a compiled step for each set of them that had gradients."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._scope = Scope()
        self._steps: dict[tuple[Any, ...], tuple[Step, str, list[str]]] = {}
        self._names: dict[int, tuple[str, Any]] = {}
        self._kept: dict[str, None] = {}
        self._loaded: dict[str, Any] = {}

    def run(self, pairs: Pairs, rate: float) -> None:
        """One update of each parameter by its gradient, a dense one or rows."""
        key = tuple([(id(one), grad.is_sparse) for one, grad in pairs])  # ids stay: `_names` keeps the parameters
        known = self._steps.get(key)
        if known is None:
            if len(self._steps) >= MAX_STEPS:
                self._steps.clear()
            known = self._steps[key] = self._compiled(pairs)
        step, rate_name, own_names = known
        tensors = self._scope.tensors
        for name, (one, _) in zip(own_names, pairs, strict=True):
            if tensors[name].data_ptr() != one.data_ptr():  # the script has given it other memory
                tensors[name] = _DETACHED(one)
        tensors[rate_name].fill_(rate)
        with torch.no_grad():
            step.function(tensors, tuple([_gradient(grad) for _, grad in pairs]))

    def state(self) -> dict[str, Tensor]:
        """What the updates keep, by name."""
        return {name: as_paddle(_DETACHED(self._scope.tensors[name])) for name in self._kept}

    def load(self, state: Mapping[str, Any]) -> None:
        """Begin with what `state()` gave; what is not there yet takes it when it is made."""
        self._loaded = {name: torch.as_tensor(value) for name, value in state.items()}
        for name in self._kept:
            self._take(name, self._scope.tensors[name])

    def _take(self, name: str, target: torch.Tensor) -> None:
        value = self._loaded.get(name)
        if value is None:
            raise UsageError(
                f"set_dict: the state has no {name!r}, and has {', '.join(sorted(self._loaded)[:3])} ...; give that of "
                "the same optimizer over parameters of the same names"
            )
        if value.shape != target.shape:
            raise UsageError(f"set_dict: {name!r} has shape {list(target.shape)}, the state {list(value.shape)}")
        target.copy_(value)

    def _name(self, parameter: Any) -> str:
        """The parameter's own name, or one for it; two of one name are told apart."""
        known = self._names.get(id(parameter))
        if known is not None:
            return known[0]
        taken = {name for name, _ in self._names.values()}
        name = stem = getattr(parameter, "name", None) or f"parameter_{len(taken)}"
        while name in taken:
            name = f"{stem}_{len(taken)}"
        self._names[id(parameter)] = name, parameter  # which keeps it, so that its id stays its own
        return name

    def _compiled(self, pairs: Pairs) -> tuple[Step, str, list[str]]:
        """The step, and the names of the learning rate and of the parameters."""
        main, startup = Program(), Program()
        block = main.global_block()
        with program_guard(main, startup), names.guard():
            rate = self._add([self._declared(block, one, grad) for one, grad in pairs])
        device = pairs[0][0].device
        self._begin(startup, rate, device)
        own_names = [self._name(one) for one, _ in pairs]
        self._scope.tensors.update({name: _DETACHED(one) for name, (one, _) in zip(own_names, pairs, strict=True)})
        feeds = [f"{name}@GRAD" for name in own_names]
        return compile_block(block, feeds, (), device, self._scope), rate, own_names

    def _declared(self, block: Block, parameter: Any, grad: torch.Tensor) -> tuple[Declared, Variable]:
        """The variables of a parameter and its gradient, with what its ParamAttr said."""
        name, shape, dtype = self._name(parameter), tuple(parameter.shape), canonical(parameter.dtype)
        made = block.create_parameter(
            name,
            shape,
            dtype,
            learning_rate=getattr(parameter, "optimize_attr", {}).get("learning_rate", 1.0),
            regularizer=getattr(parameter, "regularizer", None),
            need_clip=getattr(parameter, "need_clip", True),
        )
        kind = ROWS if grad.is_sparse else TENSOR
        return made, block.create_var(f"{name}@GRAD", shape, dtype, kind=kind, stop_gradient=True)

    def _begin(self, startup: Program, rate: str, device: torch.device) -> None:
        """First values of what is kept, where there are none yet."""
        first = Scope()
        compile_block(startup.global_block(), (), (), device, first).function(first.tensors, ())
        for name, value in first.tensors.items():
            known = self._scope.tensors.get(name)
            if known is not None and known.shape != value.shape:
                raise UsageError(f"{name!r} was kept for a sparse gradient, and now a dense one came, or the other way")
            if known is not None:
                continue
            self._scope.tensors[name] = value
            if name != rate:
                self._kept[name] = None
                if self._loaded:
                    self._take(name, value)


def with_gradients(parameters: Iterable[Any], left_out: Sequence[Any] = ()) -> Pairs:
    """The parameters that backward has left a gradient for, and it."""
    pairs = [(one, grad) for one in parameters if (grad := one.grad) is not None]
    if not left_out:
        return pairs
    skipped = {one if isinstance(one, str) else id(one) for one in left_out}
    return [pair for pair in pairs if id(pair[0]) not in skipped and getattr(pair[0], "name", None) not in skipped]


def _gradient(grad: Any) -> Any:
    plain = _DETACHED(grad)
    return Rows(plain._indices()[0], plain._values(), plain.size(0)) if plain.is_sparse else plain
