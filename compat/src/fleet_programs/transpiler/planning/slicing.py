"""Into which blocks dense parameters are cut, and which server holds each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet.ps.job.dense_spec import DenseBlock
from fleet.ps.job.placement import block_names, cut
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler.planning.arguments import Arguments


@dataclass(frozen=True)
class Piece:
    """A dense parameter on its way to servers."""

    name: str
    shape: tuple[int, ...]
    group: int
    is_whole: bool = False
    """Whether its rule forbids cutting it."""


def place(pieces: Sequence[Piece], arguments: Arguments) -> tuple[DenseBlock, ...]:
    """Every parameter's blocks, in order, each on the server that the dispatcher gave it.

    Without slice_var_up parameters stay whole and keep their order: every process must find the same placement, and a
    shuffle would buy nothing for it.
    """
    servers = arguments.endpoints or ("this process",)
    spans = [
        cut(piece.shape, len(servers) if arguments.slice_var_up and not piece.is_whole else 1, arguments.min_block_size)
        for piece in pieces
    ]
    places = iter(_dispatched(pieces, spans, _Dispatcher(arguments.split_method, servers)))
    return tuple(
        DenseBlock(piece.name, begin, end, servers.index(next(places)), piece.group)
        for piece, spans_of in zip(pieces, spans, strict=True)
        for begin, end in spans_of
    )


def block_shape(shape: Sequence[int], begin: int, end: int) -> tuple[int, ...]:
    """The shape of elements `begin` to `end` of a parameter: whole rows, or a stretch of its only dimension."""
    if len(shape) < 2:
        return tuple(shape) if not shape else (end - begin,)
    return ((end - begin) // prod(shape[1:]), *shape[1:])


def _dispatched(
    pieces: Sequence[Piece], spans: Sequence[Sequence[tuple[int, int]]], dispatcher: _Dispatcher
) -> list[str]:
    """Ask the dispatcher for the gradients of each parameter, then for all parameters; both must say the same."""
    block = Program().global_block()
    parameters: list[Variable] = []
    found: list[str] = []
    for piece, cuts in zip(pieces, spans, strict=True):
        shapes = [block_shape(piece.shape, begin, end) for begin, end in cuts]
        names = block_names(piece.name, len(cuts))
        parameters += [Variable(block, name, shape) for name, shape in zip(names, shapes, strict=True)]
        # As PaddlePaddle names them, but for the trainer's number: every process must ask the same.
        grads = block_names(piece.name + GRAD, len(cuts))
        found += dispatcher.ask([Variable(block, name, shape) for name, shape in zip(grads, shapes, strict=True)])
    dispatcher.reset()
    for parameter, before, after in zip(parameters, found, dispatcher.ask(parameters), strict=True):
        if before != after:
            raise UsageError(
                f"split_method {dispatcher.name} sends {parameter.name!r} to {after} and its gradient to {before}, but "
                "both must go to one server; let the answer depend on the parameter's name alone"
            )
    return found


class _Dispatcher:
    """The user's dispatcher: a class that takes the servers, or a function of variables and servers."""

    def __init__(self, method: Any, endpoints: Sequence[str]) -> None:
        self.name = getattr(method, "__name__", type(method).__name__)
        self._endpoints = list(endpoints)
        self._made: Any = method(list(endpoints)) if isinstance(method, type) else None
        self._function: Any = method
        if self._made is not None and not callable(getattr(self._made, "dispatch", None)):
            raise UsageTypeError(
                f"split_method {self.name} must have a method dispatch(varlist); derive it from PSDispatcher"
            )

    def ask(self, variables: list[Variable]) -> list[str]:
        answer: Any = (
            self._function(variables, self._endpoints) if self._made is None else self._made.dispatch(variables)
        )
        if not isinstance(answer, list | tuple) or len(answer) != len(variables):
            raise UsageError(
                f"split_method {self.name} must return a list of {len(variables)} endpoints, one for each variable, "
                f"got {answer!r}"
            )
        for variable, endpoint in zip(variables, answer, strict=True):
            if endpoint not in self._endpoints:
                raise UsageError(
                    f"split_method {self.name} sends {variable.name!r} to {endpoint!r}; the servers are "
                    f"{', '.join(self._endpoints)}"
                )
        return list(answer)

    def reset(self) -> None:
        if hasattr(self._made, "reset"):
            self._made.reset()
