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

from collections.abc import Mapping, Sequence

from fleet.errors import UsageError
from fleet.static.checked import defaults, settings_of
from fleet.static.compare import effective_attrs
from fleet.static.literals import plain, quoted, write_name, write_value
from fleet.static.operator import FORWARD, Operator
from fleet.static.program import Program
from fleet.static.registry import definition
from fleet.static.text_reader import read
from fleet.static.variable import Parameter, Variable


def to_text(program: Program) -> str:
    """The text form; nothing but the places in the user's script is left out."""
    lines = [f"program random_seed={program.random_seed}"]
    for block in program.blocks:
        lines.append(f"block {block.index} {'' if block.index == 0 else f'parent={block.parent} '}{{")
        lines += [f"  {variable_line(var)}" for var in block.vars.values()]
        lines += [f"  {operator_line(op)}" for op in block.ops]
        lines.append("}")
    # They may be long, and are seldom what people look for.
    lines += [f"note {write_name(name)} {_note(name, program.notes[name])}" for name in sorted(program.notes)]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Program:
    """The program of a text form; UsageError with the line and what was expected there."""
    return read(text)


def variable_line(var: Variable) -> str:
    """A variable in one line."""
    is_parameter = isinstance(var, Parameter)
    word = "param" if is_parameter else "data" if var.is_data else "var"
    usual = defaults(is_parameter, word == "data", getattr(var, "trainable", True))
    parts = [word, write_name(var.name), ":", f"{var.dtype}{list(var.shape)}"]
    for key, value in settings_of(var).items():
        if key == "trainable" and not value:
            parts.append("trainable=false")
        elif write_value(plain(value, key)) != write_value(usual[key]):
            parts.append(_setting(key, value))
    return " ".join(parts)


def operator_line(op: Operator) -> str:
    """An operator in one line."""
    line = f"{write_name(op.type)}({_slots(op.inputs)})"
    if op.outputs:
        line = f"{{{_slots(op.outputs)}}} = {line}"
    try:
        usual: Mapping[str, object] = definition(op.type).attrs
    except UsageError:  # printed all the same; it will not read back
        usual = {}
    for key, value in effective_attrs(op).items():
        text = write_value(plain(value, f"attribute {key} of {op.type}"))
        if key not in usual or text != write_value(plain(usual[key], key)):
            line += f" {write_name(key)}={text}"
    if op.role != FORWARD:
        line += f" @{op.role}"
    return line + (f" in {quoted(op.scope)}" if op.scope else "")


def _slots(slots: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{write_name(slot)}={_names(names)}" for slot, names in slots.items())


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(map(write_name, names))
    return listed if len(names) == 1 else f"[{listed}]"


def _setting(key: str, value: object) -> str:
    if value is True:
        return key
    if key in ("kind", "lod") and isinstance(value, str):
        return f"{key}={write_name(value)}"
    return f"{key}={write_value(plain(value, key))}"


def _note(name: str, value: object) -> str:
    try:
        return quoted(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"note {name!r} is not JSON: {error}") from None
