"""`while`: runs a block as long as a condition holds; and its gradient, which runs the block's gradient backwards.

    {Out=[i, total, more], StepScopes=scopes} = while(Condition=more, X=[i, total, w]) sub_block=1 saved=[...]
    {X@GRAD=[...]} = while_grad(StepScopes=scopes, Out@GRAD=[...]) sub_block=2 ...

`X` is what the block takes from around it, `Out` what it writes there. `StepScopes` is there if a gradient is: for
every turn it has the variables of the block that are named in `saved`.
"""

from __future__ import annotations

from typing import Any

from fleet_programs.definition.kinds import ROWS, SCOPES
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.runs import Runs, added, no_gradient
from fleet_programs.kernel.unset import Unset


def infer_condition(infer: Infer, slot: str) -> None:
    """Fail unless a slot holds one truth value."""
    infer.require_dtype(slot, frozenset({"bool"}))
    var = infer.var(slot)
    if any(size not in (1, -1) for size in var.shape):
        raise infer.fail(f"{slot} {var.name!r} must be one bool, got shape {list(var.shape)}; reduce it first")


def infer_scopes(infer: Infer) -> None:
    """What is kept of runs has no shape."""
    infer.set("StepScopes", [], kind=SCOPES)


def _infer_while(infer: Infer) -> None:
    infer_condition(infer, "Condition")
    infer_scopes(infer)


@register(
    "while",
    inputs=("Condition", "X*"),
    outputs=("Out*", "StepScopes?"),
    attrs={"sub_block": -1, "saved": []},
    infer=_infer_while,
    rebinds=True,
    takes_arrays=True,
    blocks=("sub_block",),
)
def _while(op: Operator, lowering: Lowering) -> Kernel:
    given = list(dict.fromkeys([*op.input_names]))
    outs, saved = op.output("Out"), op.attr("saved")
    names = [*given, *(name for name in outs if name not in given)]
    run = lowering.body(op.attr("sub_block"), given, [*outs, *saved])
    places = [names.index(name) for name in outs]
    first = [op.input_names.index(name) for name in given]
    at, num_given, num_outs = names.index(op.input("Condition")[0]), len(given), len(outs)
    keeps = bool(op.output("StepScopes"))

    def turn(*values: Any) -> Any:
        state = [values[place] for place in first]
        state += [Unset(name) for name in names[num_given:]]
        runs = Runs(dict(zip(given, state, strict=False)), saved) if keeps else None
        while bool(state[at]):
            found = run(*state[:num_given])
            for place, value in zip(places, found, strict=False):
                state[place] = value
            if runs is not None:
                runs.turns.append((0, found[num_outs:]))
        made = [state[place] for place in places]
        if runs is not None:
            runs.outs = dict(zip(outs, made, strict=True))
            made.append(runs)
        return made[0] if len(made) == 1 else tuple(made)

    return turn


GRADIENT_ATTRS: dict[str, Any] = {"outs": [], "given": [], "wrt": [], "by_rows": []}
"""Of the gradients of operators with blocks. `outs`: the variables whose gradients the block's gradient takes, of which
the operator is `given` some; `wrt`: those whose gradients go out, `by_rows` which of them are rows."""


def infer_gradients(infer: Infer) -> None:
    """Gradients of what a block takes: shaped as their variables."""
    for index, name in enumerate(infer.attr("wrt")):
        source = infer.block.var(name)
        kind = ROWS if name in infer.attr("by_rows") else source.kind
        infer.set("X@GRAD", source.shape, source.dtype, index=index, lod=source.lod, kind=kind)


@register(
    "while_grad",
    inputs=("StepScopes", "Out@GRAD*"),
    outputs=("X@GRAD*",),
    attrs={"sub_block": -1, "saved": [], "out_grads": [], "inner": [], "grads": [], **GRADIENT_ATTRS},
    infer=infer_gradients,
    takes_arrays=True,
    takes_rows=True,
    blocks=("sub_block",),
)
def _while_grad(op: Operator, lowering: Lowering) -> Kernel:
    """`inner` are the variables whose gradients the block's gradient finds, as `grads`, from `out_grads`, `saved`."""
    outs, wrt, saved, given = (op.attr(name) for name in ("outs", "wrt", "saved", "given"))
    inner, by_rows = op.attr("inner"), set(op.attr("by_rows"))
    run = lowering.body(op.attr("sub_block"), [*op.attr("out_grads"), *saved], op.attr("grads"))
    stopped = [name for name in outs if name not in inner]

    def turn_back(runs: Runs, *grads: Any) -> Any:
        now = dict(zip(given, grads, strict=True))
        now.update({name: no_gradient(runs.outs[name]) for name in outs if name not in now})
        totals: dict[str, Any] = {}
        places = runs.places(saved)
        for _, kept in reversed(runs.turns):
            found = run(*[now[name] for name in outs], *[kept[place] for place in places])
            now.update({name: no_gradient(runs.outs[name]) for name in stopped})
            for name, gradient in zip(inner, found, strict=True):
                if name in now:
                    now[name] = gradient
                else:
                    totals[name] = added(totals.get(name), gradient)
        made = [now.get(name, totals.get(name)) for name in wrt]
        filled = [
            no_gradient(runs.inputs[name], name in by_rows) if value is None else value
            for name, value in zip(wrt, made, strict=True)
        ]
        return filled[0] if len(filled) == 1 else tuple(filled)

    return turn_back
