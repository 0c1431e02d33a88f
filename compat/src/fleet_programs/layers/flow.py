"""Branches and loops in a program: what runs is decided by values, in the step that has them.

    larger = static.cond(static.layers.mean(x) > 0.5, lambda: x * 2.0, lambda: x + 1.0)
    i, total = static.while_loop(lambda i, total: i < n, lambda i, total: (i + 1, total + x), [i, total])

Functions are called once, while the program is built; what they add is in blocks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleet.errors import UsageTypeError
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.expressions.callsite import prefix
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.inside import choose, condition_of, loop, new_block
from fleet_programs.layers.building.nested import flat, form, packed
from fleet_programs.layers.table import equal, fill_constant
from fleet_programs.layers.tensor import assign
from fleet_programs.program.variable import Variable

__all__ = ["case", "cond", "switch_case", "while_loop"]

Function = Callable[[], Any]


def cond(
    pred: Variable, true_fn: Function | None = None, false_fn: Function | None = None, name: str | None = None
) -> Any:
    """What `true_fn` returns if `pred` holds in this step, else what `false_fn` returns: variables, nested alike.

    A function that is left out adds nothing and returns None. Variables made before may be assigned to in both.
    """
    return _either(LayerBuilder("cond", name), pred, true_fn, false_fn)


def _either(
    layer: LayerBuilder, pred: Variable, true_fn: Function | None, false_fn: Function | None, may_differ: bool = False
) -> Any:
    """`cond`; what the functions return may be of other types and ranks only if they `may_differ`."""
    condition = condition_of(layer, pred, "pred")
    _check_function(layer, true_fn, "true_fn", may_be_none=True)
    _check_function(layer, false_fn, "false_fn", may_be_none=True)
    with new_block(layer) as first:
        one = None if true_fn is None else true_fn()
    second = None
    other = None
    if false_fn is not None:
        with new_block(layer) as second:
            other = false_fn()
    if form(one) != form(other) or (one is None) != (other is None):
        raise layer.error(
            f"true_fn returns {_shown(one)} and false_fn {_shown(other)}; both must return as many variables, nested "
            "alike"
        )
    if one is None:
        choose(layer, condition, first, second, [], [], [])
        return None
    pairs = list(zip(flat(one), flat(other), strict=True))
    outs = [_joined(layer, *pair, may_differ) for pair in pairs]
    made, rows = list(outs), list(pairs)
    for out, (left, right) in zip(outs, pairs, strict=True):
        if left.lod is not None:  # where the rows begin is a result of its own
            offsets = layer.block.create_var(f"{out.name}@LOD", [-1], "int64", stop_gradient=True)
            made.append(offsets)
            out.lod = offsets.name
            rows.append((left.block.var(left.lod), right.block.var(right.lod)))
    choose(layer, condition, first, second, made, [left.name for left, _ in rows], [right.name for _, right in rows])
    return packed(one, outs)


def case(pred_fn_pairs: Sequence[Any], default: Function | None = None, name: str | None = None) -> Any:
    """What the function of the first pair whose variable holds returns; `default`, or the last one, if none does."""
    layer = LayerBuilder("case", name)
    if not isinstance(pred_fn_pairs, list | tuple) or not pred_fn_pairs:
        raise layer.error("pred_fn_pairs must be a list of (variable, function), with at least one")
    pairs = []
    for pair in pred_fn_pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise layer.error(f"pred_fn_pairs must hold pairs (variable, function), got {pair!r}")
        _check_function(layer, pair[1], "a function of pred_fn_pairs")
        pairs.append((condition_of(layer, pair[0], "a variable of pred_fn_pairs"), pair[1]))
    _check_function(layer, default, "default", may_be_none=True)
    return _first(pairs if default is not None else pairs[:-1], default or pairs[-1][1])


def switch_case(
    branch_index: Variable,
    branch_fns: Sequence[Any] | Mapping[int, Function],
    default: Function | None = None,
    name: str | None = None,
) -> Any:
    """What the function of number `branch_index` returns; `default`, or the one of the largest number, if none has it.

    Functions are a list, whose numbers are their places, pairs (number, function), or a dictionary.
    """
    layer = LayerBuilder("switch_case", name)
    index = layer.variable(branch_index, "branch_index")
    if index.dtype not in ("int32", "int64", "uint8"):
        raise layer.error(f"branch_index {index.name!r} must be int32, int64 or uint8, got {index.dtype}")
    given = list(branch_fns.items()) if isinstance(branch_fns, Mapping) else list(branch_fns)
    numbered = [one if isinstance(one, tuple) else (place, one) for place, one in enumerate(given)]
    if not numbered or len({number for number, _ in numbered}) != len(numbered):
        raise layer.error("branch_fns must have at least one function, and each number once")
    for number, function in numbered:
        if isinstance(number, bool) or not isinstance(number, int):
            raise layer.error(f"numbers of branch_fns must be whole, got {number!r}")
        _check_function(layer, function, "a function of branch_fns")
    _check_function(layer, default, "default", may_be_none=True)
    ordered = sorted(numbered)
    last = default or ordered[-1][1]
    chosen = ordered if default is not None else ordered[:-1]
    pairs = [(equal(index, fill_constant([1], index.dtype, number)), function) for number, function in chosen]
    return _first(pairs, last)


def _first(pairs: Sequence[tuple[Variable, Function]], otherwise: Function) -> Any:
    if not pairs:
        return otherwise()
    (pred, function), *others = pairs
    rest = (lambda: _first(others, otherwise)) if others else otherwise
    return _either(LayerBuilder("cond"), pred, function, rest, may_differ=True)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,  # noqa: ARG001 - what evaluation needs is found without it
    name: str | None = None,
) -> Any:
    """The variables after the loop: `body(*variables)` gives them anew as long as `cond(*variables)` holds.

    They keep their dtype and number of dimensions from turn to turn; a size may change. `loop_vars` stay as they are.
    """
    layer = LayerBuilder("while_loop", name)
    _check_function(layer, cond, "cond")
    _check_function(layer, body, "body")
    if not isinstance(loop_vars, list | tuple) or not loop_vars:
        raise layer.error("loop_vars must be a list of variables, with at least one")
    first = [layer.variable(var, "loop_vars") for var in flat(loop_vars)]
    state = [assign(var, output=layer.temporary(var.dtype)) for var in first]
    given = packed(loop_vars, state)
    more = layer.temporary("bool", stop_gradient=True)
    assign(condition_of(layer, cond(*given), "what cond returns"), output=more)
    with loop(layer, more):
        made = body(*given)
        made = [made] if isinstance(made, Variable) else made
        if form(made) != form(loop_vars):
            raise layer.error(
                f"body returns {_shown(made)} and loop_vars are {_shown(loop_vars)}; return one for each, nested alike"
            )
        _assign_all(layer, flat(made), state)
        assign(condition_of(layer, cond(*given), "what cond returns"), output=more)
    return given


def _assign_all(layer: LayerBuilder, values: Sequence[Any], targets: Sequence[Variable]) -> None:
    """Give variables the values of a turn, all at once: those that change places are copied first."""
    found = []
    for value, target in zip(values, targets, strict=True):
        var = layer.variable(value, "what body returns")
        if (var.kind == ARRAY) != (target.kind == ARRAY):
            raise layer.error(f"{var.name!r} and {target.name!r} must both be arrays, or none of them")
        moves = var is not target and any(var is other for other in targets)
        found.append(assign(var) if moves else var)
    for var, target in zip(found, targets, strict=True):
        if var is not target:
            assign(var, output=target)


def _joined(layer: LayerBuilder, left: Any, right: Any, may_differ: bool) -> Variable:
    """The variable for what either function returns."""
    for value, what in ((left, "true_fn"), (right, "false_fn")):
        if not isinstance(value, Variable):
            raise UsageTypeError(
                f"{prefix()}{layer.kind}: {what} must return variables, got {type(value).__name__}; make one with "
                "layers.fill_constant() or layers.assign()"
            )
    same = may_differ or (left.dtype == right.dtype and left.ndim == right.ndim)
    if not same or left.kind != right.kind or (left.lod is None) != (right.lod is None):
        raise layer.error(f"true_fn returns {_nature(left)} and false_fn {_nature(right)}; cast or reshape one of them")
    sizes = (  # of another rank or type each value stays what it is: only the first one's is known while it is built
        [a if a == b else -1 for a, b in zip(left.shape, right.shape, strict=True)]
        if left.ndim == right.ndim
        else [-1] * left.ndim
    )
    out = layer.temporary(left.dtype, stop_gradient=left.stop_gradient and right.stop_gradient)
    out.shape, out.kind = tuple(sizes), left.kind
    return out


def _nature(var: Variable) -> str:
    return f"{'ragged ' if var.lod else ''}{var.kind} {var.name!r}, {var.dtype} of shape {list(var.shape)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{len(flat(value))} as {form(value)}"


def _check_function(layer: LayerBuilder, value: Any, what: str, *, may_be_none: bool = False) -> None:
    if not callable(value) and not (may_be_none and value is None):
        raise UsageTypeError(f"{prefix()}{layer.kind}: {what} must be a function, got {type(value).__name__}")
