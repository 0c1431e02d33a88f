"""A program as JSON: the form that is stored and sent. It reads back to an equal program.

    {"format": "fleet-program", "version": 1, "random_seed": 0, "notes": {},
     "blocks": [{"parent": -1,
                 "vars": [{"name": "x", "dtype": "float32", "shape": [-1, 32], "is_parameter": false, ...}],
                 "ops": [{"type": "mul", "inputs": {"X": ["x"], "Y": ["w"]}, "outputs": {"Out": ["y"]},
                          "attrs": {"x_num_col_dims": 1, "y_num_col_dims": 1}, "role": "forward", "scope": ""}]}]}

All attributes are in it, also those that have their default, so that a stored program keeps its meaning. JSON has no
word for inf and nan: they are `{"float": "inf"}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.definition.literals import MAX_DEPTH, load_json, plain, shorten
from fleet_programs.definition.operator import FORWARD, Operator
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import check_bodies
from fleet_programs.program.checked import add_block, add_note, add_operator, add_variable
from fleet_programs.program.variable import Parameter, Variable, usual_settings

if TYPE_CHECKING:
    from fleet_programs.program.program import Program

FORMAT, VERSION = "fleet-program", 1


def to_json(program: Program) -> str:
    """The JSON form, on one line."""
    blocks = [
        {
            "parent": block.parent,
            "vars": [_variable(var) for var in block.vars.values()],
            "ops": [_operator(op) for op in block.ops],
        }
        for block in program.blocks
    ]
    head = {"format": FORMAT, "version": VERSION, "random_seed": program.random_seed, "notes": program.notes}
    try:
        return json.dumps({**head, "blocks": blocks}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the program's notes are not JSON: {error}") from None


def _variable(var: Variable) -> dict[str, Any]:
    settings = {key: _number(plain(value, f"{key} of {var.name!r}")) for key, value in var.settings().items()}
    head = {"name": var.name, "dtype": var.dtype, "shape": list(var.shape), "is_parameter": isinstance(var, Parameter)}
    return {**head, **settings}


def _operator(op: Operator) -> dict[str, Any]:
    attrs = {key: _number(plain(value, f"attribute {key} of {op.type}")) for key, value in op.effective_attrs().items()}
    slots = {"inputs": op.inputs, "outputs": op.outputs}
    return {"type": op.type, **slots, "attrs": attrs, "role": op.role, "scope": op.scope}


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(item) for item in value]
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def from_json(text: str, program: Program) -> Program:
    """A new program, filled with what a JSON form says; UsageError naming the place and what was expected there."""
    if not isinstance(text, str):
        raise UsageTypeError(f"a program's JSON must be a string, got {type(text).__name__}")
    try:
        return _program(load_json(text), program)
    except UsageError as error:
        raise UsageError(f"a program's JSON: {error}") from None


def _program(value: Any, program: Program) -> Program:
    head = _fields(value, "", ("format", "version", "random_seed", "notes", "blocks"))
    if head["format"] != FORMAT:
        raise UsageError(f"format must be {FORMAT!r}, got {_shown(head['format'])}")
    if head["version"] != VERSION:
        raise UsageError(f"version must be {VERSION}, got {_shown(head['version'])}; a newer Fleet may read it")
    program.blocks = []
    program.random_seed = _typed(head["random_seed"], int, "random_seed")
    for name, note in _typed(head["notes"], dict, "notes").items():
        add_note(program, name, note)
    for index, one in enumerate(_typed(head["blocks"], list, "blocks")):
        where = f"blocks[{index}]"
        given = _fields(one, where, ("parent", "vars", "ops"))
        block = add_block(program, _typed(given["parent"], int, f"{where}.parent"))
        for number, var in enumerate(_typed(given["vars"], list, f"{where}.vars")):
            _placed(f"{where}.vars[{number}]", _read_variable, block, var)
        for number, op in enumerate(_typed(given["ops"], list, f"{where}.ops")):
            _placed(f"{where}.ops[{number}]", _read_operator, block, op)
    if not program.blocks:
        raise UsageError("blocks must have at least one block")
    check_bodies(program)
    return program


def _placed(where: str, read: Any, block: Block, value: Any) -> None:
    try:
        read(block, value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _read_variable(block: Block, value: Any) -> None:
    is_parameter = isinstance(value, dict) and value.get("is_parameter") is True
    trainable = not (isinstance(value, dict) and value.get("trainable") is False)
    usual = usual_settings(is_parameter, isinstance(value, dict) and value.get("is_data") is True, trainable)
    given = _fields(value, "", ("name", "dtype", "shape", "is_parameter"), usual)
    name, dtype = _typed(given.pop("name"), str, "name"), _typed(given.pop("dtype"), str, "dtype")
    shape = _typed(given.pop("shape"), list, "shape")
    _typed(given.pop("is_parameter"), bool, "is_parameter")
    settings = {**usual, **{key: _value(one, key) for key, one in given.items()}}
    add_variable(block, is_parameter, name, dtype, shape, settings)


def _read_operator(block: Block, value: Any) -> None:
    given = _fields(value, "", ("type", "inputs", "outputs", "attrs"), ("role", "scope"))
    attrs = _typed(given["attrs"], dict, "attrs")
    op = Operator(
        _typed(given["type"], str, "type"),
        _slots(given["inputs"], "inputs"),
        _slots(given["outputs"], "outputs"),
        {key: _value(one, f"attrs.{key}") for key, one in attrs.items()},
        role=_typed(given.get("role", FORWARD), str, "role"),
        scope=_typed(given.get("scope", ""), str, "scope"),
    )
    add_operator(block, op)


def _slots(value: Any, where: str) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = _typed(value, dict, where)
    for slot, names in slots.items():
        for name in _typed(names, list, f"{where}.{slot}"):
            _typed(name, str, f"{where}.{slot}")
    return slots


def _value(value: Any, where: str, depth: int = 0) -> Any:
    if isinstance(value, list):
        if depth == MAX_DEPTH:
            raise UsageError(f"{where} has more than {MAX_DEPTH} lists within each other")
        return [_value(item, where, depth + 1) for item in value]
    if isinstance(value, dict):
        if list(value) != ["float"] or value["float"] not in ("inf", "-inf", "nan"):
            raise UsageError(f'{where} must be a value, a list, or {{"float": "inf"}}, got {_shown(value)}')
        return float(value["float"])
    return value


_NAMES = {int: "a whole number", str: "text", dict: "an object", list: "a list", bool: "true or false"}


def _typed(value: Any, kind: type, where: str) -> Any:
    if type(value) is not kind:
        raise UsageError(f"{where} must be {_NAMES[kind]}, got {_shown(value)}")
    return value


def _fields(value: Any, where: str, needed: Collection[str], others: Collection[str] = ()) -> dict[str, Any]:
    place = f"{where}: " if where else ""
    if not isinstance(value, dict):
        raise UsageError(f"{place}expected an object, got {_shown(value)}")
    for name in needed:
        if name not in value:
            raise UsageError(f"{place}{name!r} is missing")
    for name in value:
        if name not in needed and name not in others:
            raise UsageError(f"{place}unknown field {shorten(name)}; there are {', '.join((*needed, *others))}")
    return dict(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    try:
        return shorten(str(value))
    except ValueError:  # Python refuses to print very long integers
        return "a very long number"
