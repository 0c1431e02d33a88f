"""A layer of programs, called on tensors: what it adds to a program becomes a function, one for each set of shapes.

The layer is called once with variables of the tensors' shapes, in a program of its own, whose operators' kernels then
work on the tensors. A tensor that is given for `param_attr`, `bias_attr` or
the like is the parameter that the layer would make: so a layer of `fluid.dygraph` is its parameters and the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fleet.errors import FleetError, NotSupportedError, UsageTypeError
from fleet_paddle.fluid.gradient import runner
from fleet_paddle.imperative.tensor import as_paddle
from fleet_programs.definition.dtypes import canonical
from fleet_programs.expressions import names
from fleet_programs.expressions.callsite import prefix
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable

MAX_KNOWN = 4096
"""Shapes and settings that a layer remembers what it does with; then it begins anew."""

Function = Callable[[list[torch.Tensor]], Any]

_PLAIN = torch.Tensor
_SHAPE = torch._C.TensorBase.shape.__get__  # type: ignore[attr-defined]
_ALIAS: Any = torch.Tensor.as_subclass
_BY_NAME = ("_attr", "_name")
"""How arguments end that a parameter's name can be given for."""


class Traced:
    """A layer for tensors. `remedy` says what to use where it would make parameters."""

    def __init__(self, name: str, layer: Callable[..., Any], remedy: str = "") -> None:
        self._name, self._layer, self._remedy = name, layer, remedy
        self._known: dict[Any, Function] = {}

    def __call__(self, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """The layer's result for tensors among these arguments, at any depth of lists."""
        tensors: list[torch.Tensor] = []
        key: Any = tuple([_key(one, tensors) for one in args])
        if named:
            key = key, tuple([(name, _key(one, tensors)) for name, one in named.items()])
        try:
            function = self._known.get(key)
        except TypeError:  # an argument that cannot be compared, such as an array
            return self._made(args, named, tensors)(tensors)
        if function is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            function = self._known[key] = self._made(args, named, tensors)
        return function(tensors)

    def refusal(self, args: Sequence[Any], named: dict[str, Any]) -> Exception | None:
        """The layer's own error for these arguments, if it has one; it sees their shapes and computes nothing."""
        try:
            self._built(args, named)
        except (FleetError, TypeError) as error:
            return error
        return None

    def _made(self, args: Sequence[Any], named: dict[str, Any], tensors: Sequence[torch.Tensor]) -> Function:
        main, feeds, result = self._built(args, named)
        device = tensors[0].device if tensors else torch.device("cpu")
        return _compiled(main, feeds, result, device, self._name)

    def _built(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[Program, list[str], Any]:
        """The layer's program, the variables that stand for tensors, and what the layer gave."""
        main, startup = Program(), Program()
        given = _Given(main.global_block())
        with program_guard(main, startup), names.guard():
            values = [given.put(one) for one in args]  # before those by name: they are known by their order
            others = {name: given.put(one, _way(name)) for name, one in named.items()}
            result = self._layer(*values, **others)
        if startup.global_block().ops:
            raise NotSupportedError(
                f"{prefix()}{self._name} makes variables that last, which a function of tensors has no place for; "
                + (self._remedy or "use a layer of fluid.dygraph, which holds its parameters")
            )
        return main, given.names, result


class _Given:
    """The variables of a program that stand for tensors."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.names: list[str] = []

    def put(self, value: Any, by_name: str = "") -> Any:
        """The argument with variables in place of tensors, or with names of parameters."""
        if isinstance(value, list | tuple):
            return [self.put(one, by_name) for one in value]
        if not isinstance(value, _PLAIN):
            return value
        name, shape, dtype = f"x{len(self.names)}", _SHAPE(value), canonical(value.dtype)
        self.names.append(name)
        if by_name:
            self._block.create_parameter(name, shape, dtype, trainable=by_name != "_name")
            return name
        return self._block.create_var(name, shape, dtype)


def _way(name: str) -> str:
    """How an argument ends for which a parameter's name can be given; nothing for others."""
    return next((end for end in _BY_NAME if name.endswith(end)), "")


def _key(value: Any, tensors: list[torch.Tensor]) -> Any:
    """What an argument decides about the function; tensors are put aside, in the order of `_Given.names`."""
    if isinstance(value, _PLAIN):
        tensors.append(value)
        return _SHAPE(value), value.dtype, value.device
    if isinstance(value, list | tuple):
        return tuple([_key(one, tensors) for one in value])
    return value if value is None or value.__class__ is str else (value.__class__, value)


def _compiled(main: Program, feeds: list[str], result: Any, device: torch.device, name: str) -> Function:
    block = main.global_block()
    several = list(result) if isinstance(result, list | tuple) else [result]
    for one in several:
        if not isinstance(one, Variable):
            raise UsageTypeError(f"{name} gives {type(one).__name__}, which is for programs alone")
    written = {one for op in block.ops for one in op.output_names}
    changed = [place for place, feed in enumerate(feeds) if feed in written and not block.var(feed).persistable]
    fetches = [*(one.name for one in several), *(feeds[place] for place in changed)]
    step, takes_any = runner(main, feeds, fetches, device)
    as_plain = not takes_any
    if len(several) == 1 and not changed and not isinstance(result, list | tuple):
        return _single(step, as_plain, several[0].stop_gradient)
    stops = [one.stop_gradient for one in several]
    places = [feeds.index(one.name) if one.name in written and one.name in feeds else None for one in several]

    def function(tensors: list[torch.Tensor]) -> Any:
        found = step(*([_ALIAS(one, _PLAIN) for one in tensors] if as_plain else tensors))
        for place, value in zip(changed, found[len(several) :], strict=True):
            write(tensors[place], value)
        made = [
            _given(value, tensors, stop) if place is None else tensors[place]
            for value, stop, place in zip(found, stops, places, strict=False)
        ]
        return tuple(made) if isinstance(result, tuple) else made if isinstance(result, list) else made[0]

    return function


def _single(step: Callable[..., tuple[Any, ...]], as_plain: bool, stops: bool) -> Function:
    if not as_plain:
        return lambda tensors: _given(step(*tensors)[0], tensors, stops)
    return lambda tensors: _given(step(*[_ALIAS(one, _PLAIN) for one in tensors])[0], tensors, stops)


def _given(value: torch.Tensor, tensors: list[torch.Tensor], stops: bool) -> torch.Tensor:
    """The value as a tensor of its own, which is none of those that came in."""
    for one in tensors:
        if one is value:
            value = _ALIAS(value, _PLAIN)
    return as_paddle(value.detach() if stops and value.requires_grad else value)


def write(target: torch.Tensor, value: torch.Tensor) -> None:
    """What the layer writes to a variable that it was given."""
    if target.requires_grad and target.is_leaf:
        with torch.no_grad():
            target.copy_(value)
    else:
        target.copy_(value)
