"""A program as text, for people, for tests that compare programs, and to read back.

    program random_seed=7
    note memory_optimize {"keep": [], "skip_grads": true}
    block 0 {
      data x : float32[-1, 32]
      param fc_0.w_0 : float32[32, 128] learning_rate=0.5
      var learning_rate_0 : float32[1] persistable
      var fc_0.tmp_0 : float32[-1, 128]
      {Out=fc_0.tmp_0} = mul(X=x, Y=fc_0.w_0) in "encoder/"
      {ParamOut=fc_0.w_0} = sgd(Param=fc_0.w_0, Grad=fc_0.w_0@GRAD, LearningRate=learning_rate_0) @optimize
    }

One line for each variable and operator, in the order of the program. Settings and attributes that have their default
are left out, so is the role `forward`; a setting without a value is true. A slot of several variables is a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet_programs.definition.literals import quoted, write_name

if TYPE_CHECKING:
    from fleet_programs.program.program import Program


def to_text(program: Program) -> str:
    """The text form; nothing but the places in the user's script is left out."""
    lines = [f"program random_seed={program.random_seed}"]
    for block in program.blocks:
        lines.append(f"block {block.index} {'' if block.index == 0 else f'parent={block.parent} '}{{")
        lines += [f"  {var}" for var in block.vars.values()]
        lines += [f"  {op}" for op in block.ops]
        lines.append("}")
    # They may be long, and are seldom what people look for.
    lines += [f"note {write_name(name)} {_note(name, program.notes[name])}" for name in sorted(program.notes)]
    return "\n".join(lines) + "\n"


def _note(name: str, value: object) -> str:
    try:
        return quoted(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"note {name!r} is not JSON: {error}") from None
