"""PaddlePaddle's blocks of control flow, as `with` statements: While, Switch, IfElse; and functions of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fleet_paddle.programs.ops.training.py_func import number_of
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.inside import branch, condition_of, loop
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Variable

__all__ = ["IfElse", "Switch", "While", "py_func"]


class While:
    """A loop: `with While(cond=more).block():` runs as long as `more`, which the block must write, holds."""

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:  # noqa: ARG002
        self._layer = LayerBuilder("while", name)
        self._cond = condition_of(self._layer, cond, "cond")

    def block(self) -> AbstractContextManager[Block]:
        """Inside, layers add to what is repeated."""
        return loop(self._layer, self._cond)


class Switch:
    """The first case whose condition holds runs, else the default: `with Switch() as s: with s.case(c): ...`."""

    def __init__(self, name: str | None = None) -> None:
        self._layer = LayerBuilder("switch", name)
        self._none_before: Variable | None = None
        self._has_default = False

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None: ...

    @contextmanager
    def case(self, condition: Variable) -> Iterator[None]:
        """Inside, layers add to what runs if `condition` holds and no case before does."""
        given = condition_of(self._layer, condition, "condition")
        if self._has_default:
            raise self._layer.error("a case after the default would never run; put default() last")
        before = self._none_before
        chosen = given if before is None else layers.logical_and(before, given)
        otherwise = layers.logical_not(given)
        self._none_before = otherwise if before is None else layers.logical_and(before, otherwise)
        with branch(self._layer, chosen):
            yield

    @contextmanager
    def default(self) -> Iterator[None]:
        """Inside, layers add to what runs if no case does."""
        if self._none_before is None:
            raise self._layer.error("default() must come after at least one case()")
        if self._has_default:
            raise self._layer.error("there is a default already")
        self._has_default = True
        with branch(self._layer, self._none_before):
            yield


class IfElse:
    """Rows of a batch go one of two ways, by a condition of each, [rows, 1] bool; afterwards they are joined again.

    Both ways are computed, each with its own rows, of which there may be none.
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        self._layer = LayerBuilder("ifelse", name)
        mask = self._layer.variable(cond, "cond")
        if mask.dtype != "bool" or mask.shape[1:] not in ((), (1,)):
            raise self._layer.error(f"cond {mask.name!r} must be bool [rows, 1], got {mask.dtype} {list(mask.shape)}")
        flat = layers.reshape(mask, [-1])
        self._rows = [layers.reshape(layers.where(one), [-1]) for one in (flat, layers.logical_not(flat))]
        self._outs: list[list[Variable]] = [[], []]
        self._now = -1

    @contextmanager
    def _way(self, number: int) -> Iterator[None]:
        self._now = number
        try:
            yield
        finally:
            self._now = -1

    def true_block(self) -> AbstractContextManager[None]:
        """Inside, `input` and `output` are about the rows whose condition holds."""
        return self._way(0)

    def false_block(self) -> AbstractContextManager[None]:
        """Inside, `input` and `output` are about the other rows."""
        return self._way(1)

    def input(self, x: Variable) -> Variable:
        """The rows of `x` that go this way."""
        return layers.gather(self._layer.variable(x, "x"), self._rows[self._inside()])

    def output(self, *outs: Variable) -> None:
        """What this way makes of its rows."""
        self._outs[self._inside()] += [self._layer.variable(out, "outs") for out in outs]

    def _inside(self) -> int:
        if self._now < 0:
            raise self._layer.error("input() and output() belong inside true_block() or false_block()")
        return self._now

    def __call__(self) -> list[Variable]:
        """The outputs of both ways, row by row in the order of the batch."""
        ways = self._outs
        if not ways[0] or len(ways[0]) != len(ways[1]):
            raise self._layer.error(f"both blocks must have as many outputs, got {len(ways[0])} and {len(ways[1])}")
        _, order = layers.argsort(layers.concat(self._rows))
        return [layers.gather(layers.concat(list(pair)), order) for pair in zip(*ways, strict=True)]


def py_func(
    func: Callable[..., Any],
    x: Variable | Sequence[Variable] | None,
    out: Variable | Sequence[Variable] | None,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Variable | Sequence[Variable] | None = None,
) -> Any:
    """`func` of the values of `x`, as LoDTensors that numpy takes, written to `out`, which the script has declared.

    `backward_func` takes `x`, `out` and the gradients of `out`, without what `skip_vars_in_backward_input` names, and
    returns the gradients of `x`. Functions stay in this process: a program that is saved does not bring them along.
    """
    layer = LayerBuilder("py_func")
    given: list[Any] = [func, *([] if backward_func is None else [backward_func])]
    if not all(callable(one) for one in given):
        raise layer.error("func and backward_func must be functions")
    inputs, outs, skipped = (_several(layer, one) for one in (x, out, skip_vars_in_backward_input))
    for one in outs:
        if not one.shape:
            raise layer.error(f"out {one.name!r} needs a shape; make it with create_var(name, dtype, shape)")
    known = {one.name for one in (*inputs, *outs)}
    for one in skipped:
        if one.name not in known:
            raise layer.error(f"skip_vars_in_backward_input has {one.name!r}, which is neither in x nor in out")
    attrs = {
        "forward_callable_id": number_of(func),
        "backward_callable_id": -1 if backward_func is None else number_of(backward_func),
        "backward_skip_vars": [one.name for one in skipped],
    }
    if backward_func is None:
        for one in outs:
            one.stop_gradient = True
    layer.op("py_func", {"X": inputs}, {"Out": outs}, attrs)
    return out


def _several(layer: LayerBuilder, given: Any) -> list[Variable]:
    several = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    return [layer.variable(one, "a variable") for one in several]
