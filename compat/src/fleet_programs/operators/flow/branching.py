"""`cond`: runs one of two blocks, or one block or none; and its gradient, which runs the gradient of that block.

    {Out=[y]} = cond(Cond=is_large, X=[x]) true_block=1 false_block=2 true_outs=["a"] false_outs=["b"]

For every variable of `Out` each block has one: a variable of its own, or one from around it, written or as it was. A
variable that has no value where the operator stands, and that the block does not write, stays without one.
"""

from __future__ import annotations

from typing import Any

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows
from fleet_programs.kernel.runs import Runs, no_gradient
from fleet_programs.kernel.unset import Unset
from fleet_programs.operators.flow.looping import GRADIENT_ATTRS, infer_condition, infer_gradients, infer_scopes

BLOCKS = ("true_block", "false_block")


def _infer_cond(infer: Infer) -> None:
    infer_condition(infer, "Cond")
    infer_scopes(infer)
    for which in ("true", "false"):
        if len(infer.attr(f"{which}_outs")) != len(infer.op.output("Out")):
            raise infer.fail(f"{which}_outs must name a variable for each of Out, got {infer.attr(f'{which}_outs')}")


@register(
    "cond",
    inputs=("Cond", "X*"),
    outputs=("Out*", "StepScopes?"),
    attrs={"true_block": -1, "false_block": -1, "true_outs": [], "false_outs": [], "saved": []},
    infer=_infer_cond,
    rebinds=True,
    takes_arrays=True,
    blocks=BLOCKS,
)
def _cond(op: Operator, lowering: Lowering) -> Kernel:
    given = list(dict.fromkeys(op.input_names))
    first = [op.input_names.index(name) for name in given]
    outs, saved, keeps = op.output("Out"), op.attr("saved"), bool(op.output("StepScopes"))
    branches = [_branch(op, lowering, which, given) for which in ("true", "false")]

    def choose(condition: Any, *values: Any) -> Any:
        state = [(condition, *values)[place] for place in first]
        number = 0 if bool(condition) else 1
        found, kept = branches[number](state)
        made = list(found)
        if keeps:
            runs = Runs(dict(zip(given, state, strict=True)), saved)
            runs.outs = dict(zip(outs, made, strict=True))
            runs.turns.append((number, kept))
            made.append(runs)
        return made[0] if len(made) == 1 else tuple(made)

    return choose


def _branch(op: Operator, lowering: Lowering, which: str, given: list[str]) -> Any:
    """What one side does: of what is given it makes the outputs, and what is kept for its gradient."""
    index, outs, saved = op.attr(f"{which}_block"), op.attr(f"{which}_outs"), op.attr("saved")
    if index < 0:
        places = {name: place for place, name in enumerate(given)}
        return lambda state: ([state[places[name]] if name in places else Unset(name) for name in outs], ())
    block = lowering.program.blocks[index]
    made = {name for inner in block.ops for name in inner.output_names} | set(given)
    wanted = [name for name in outs if name in made]
    kept = [name for name in saved if name in made]
    run = lowering.body(index, given, [*wanted, *kept])

    def side(state: list[Any]) -> tuple[list[Any], list[Any]]:
        found = dict(zip([*wanted, *kept], run(*state), strict=True))
        return [found.get(name, Unset(name)) for name in outs], [found.get(name) for name in saved]

    return side


@register(
    "cond_grad",
    inputs=("StepScopes", "Out@GRAD*"),
    outputs=("X@GRAD*",),
    attrs={
        **dict.fromkeys(BLOCKS, -1),
        **{f"{which}_{part}": [] for which in ("true", "false") for part in ("saved", "out_grads", "inner", "grads")},
        **GRADIENT_ATTRS,
    },
    infer=infer_gradients,
    takes_arrays=True,
    takes_rows=True,
    blocks=BLOCKS,
)
def _cond_grad(op: Operator, lowering: Lowering) -> Kernel:
    """A side without a block gives gradients back as they come; see `while_grad` for what the lists are."""
    outs, wrt, given = (op.attr(name) for name in ("outs", "wrt", "given"))
    by_rows = set(op.attr("by_rows"))
    sides = [_gradient(op, lowering, which) for which in ("true", "false")]

    def give_back(runs: Runs, *grads: Any) -> Any:
        now = dict(zip(given, grads, strict=True))
        now.update({name: no_gradient(runs.outs[name]) for name in outs if name not in now})
        number, kept = runs.turns[0]
        found = sides[number](runs, now, kept)
        made = []
        for name in wrt:
            value = found.get(name)
            if value is None:
                value = no_gradient(runs.inputs[name], name in by_rows)
            made.append(value.to_dense() if isinstance(value, Rows) and name not in by_rows else value)
        return made[0] if len(made) == 1 else tuple(made)

    return give_back


def _gradient(op: Operator, lowering: Lowering, which: str) -> Any:
    index, outs = op.attr(f"{which}_block"), op.attr("outs")
    if index < 0:
        return lambda runs, now, kept: now  # noqa: ARG005
    out_grads, saved, inner, grads = (op.attr(f"{which}_{part}") for part in ("out_grads", "saved", "inner", "grads"))
    run = lowering.body(index, [*(one for one in out_grads if one), *saved], grads)
    taken = [name for name, one in zip(outs, out_grads, strict=True) if one]

    def side(runs: Runs, now: dict[str, Any], kept: Any) -> dict[str, Any]:
        found = run(*[now[name] for name in taken], *[kept[place] for place in runs.places(saved)])
        return dict(zip(inner, found, strict=True))

    return side
