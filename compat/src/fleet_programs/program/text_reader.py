"""Reads a program's text, line by line. Nothing of it is executed, and every line is looked at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.definition.literals import Cursor, load_json, shorten
from fleet_programs.definition.operator import FORWARD, Operator
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import check_bodies
from fleet_programs.program.checked import add_block, add_note, add_operator, add_variable
from fleet_programs.program.variable import usual_settings

if TYPE_CHECKING:
    from fleet_programs.program.program import Program


def read(text: str, program: Program) -> Program:
    """A new program, filled with what the text says; UsageError with the line and what was expected there."""
    if not isinstance(text, str):
        raise UsageTypeError(f"a program's text must be a string, got {type(text).__name__}")
    program.blocks = []
    block: Block | None = None
    has_begun = False
    number = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if has_begun and block is None and line.startswith("note "):
            _note(line, number, program)
            continue
        cursor = Cursor(line, number)
        try:
            if not has_begun:
                program.random_seed = _first(cursor)
                has_begun = True
            elif block is not None:
                if cursor.accept("}"):
                    cursor.end()
                    block = None
                else:
                    _inside(cursor, block)
            else:
                block = _block(cursor, program)
        except UsageError as error:
            raise error if str(error).startswith("line ") else cursor.error(str(error)) from None
    if block is not None:
        raise UsageError(f"line {number}: expected '}}', got the end of the text")
    if not program.blocks:
        raise UsageError(f"line {number}: expected 'block 0 {{', got the end of the text")
    check_bodies(program)
    return program


def _word(cursor: Cursor, text: str) -> None:
    if cursor.peek() != ("word", text):
        raise cursor.expected(repr(text))
    cursor.take()


def _first(cursor: Cursor) -> int:
    _word(cursor, "program")
    _word(cursor, "random_seed")
    cursor.expect("=")
    seed = cursor.integer("a whole number")
    cursor.end()
    return seed


def _note(line: str, number: int, program: Program) -> None:
    """`note NAME JSON`: the rest of the line is JSON, which has other rules than our own values."""
    rest = line[len("note ") :].lstrip()
    try:
        if rest.startswith('"'):
            name, end = json.JSONDecoder().raw_decode(rest)
        else:
            name = rest.split(" ", 1)[0]
            end = len(name)
        add_note(program, name, load_json(rest[end:]))
    except UsageError as error:
        raise UsageError(f"line {number}: {error}") from None
    except ValueError as error:
        raise UsageError(f"line {number}: expected note NAME JSON, got {shorten(rest)} ({error})") from None


def _block(cursor: Cursor, program: Program) -> Block:
    _word(cursor, "block")
    index = cursor.integer("the number of a block")
    if index != len(program.blocks):
        raise cursor.error(f"expected block {len(program.blocks)}, got block {index}")
    parent = -1
    if index:
        _word(cursor, "parent")
        cursor.expect("=")
        parent = cursor.integer("the number of a block")
    cursor.expect("{")
    cursor.end()
    return add_block(program, parent)


def _inside(cursor: Cursor, block: Block) -> None:
    first, second = cursor.peek(), cursor.peek(1)
    if first.kind == "word" and first.text in ("data", "param", "var") and second != ("mark", "("):
        _variable(cursor, block)
    elif cursor.at_mark("{") or second == ("mark", "("):
        _operator(cursor, block)
    else:
        raise cursor.expected("data, param, var, an operator or '}'")


def _variable(cursor: Cursor, block: Block) -> None:
    word = cursor.take().text
    name = cursor.name("the name of a variable")
    cursor.expect(":")
    dtype = cursor.name("a dtype")
    cursor.expect("[")
    shape = cursor.listed(lambda: cursor.integer("a size"), "]")
    given: dict[str, Any] = {}
    while cursor.peek().kind != "end":
        key = cursor.name("a setting")
        if key in given:
            raise cursor.error(f"{key} stands twice")
        given[key] = True
        if cursor.accept("="):
            given[key] = cursor.name("a name") if key in ("kind", "lod") else cursor.value()
    is_parameter = word == "param"
    usual = usual_settings(is_parameter, word == "data", given.get("trainable", True) is not False)
    add_variable(block, is_parameter, name, dtype, shape, {**usual, **given})


def _operator(cursor: Cursor, block: Block) -> None:
    outputs: dict[str, list[str]] = {}
    if cursor.accept("{"):
        outputs = _slots(cursor, "}")
        cursor.expect("=")
    type = cursor.name("the type of an operator")
    cursor.expect("(")
    inputs = _slots(cursor, ")")
    attrs: dict[str, Any] = {}
    role, scope = FORWARD, ""
    while cursor.peek().kind != "end":
        if cursor.peek(1) == ("mark", "="):
            key = cursor.name("an attribute")
            cursor.expect("=")
            if key in attrs:
                raise cursor.error(f"attribute {key} stands twice")
            attrs[key] = cursor.value()
            continue
        if cursor.peek().kind == "word" and cursor.peek().text.startswith("@"):
            role = cursor.take().text[1:]
        if cursor.peek() == ("word", "in"):
            cursor.take()
            scope = cursor.name("a scope")
        cursor.end('attribute=value, @role, in "scope/" or the end of the line')
    add_operator(block, Operator(type, inputs, outputs, attrs, role=role, scope=scope))


def _slots(cursor: Cursor, close: str) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {}

    def one() -> None:
        slot = cursor.name("a slot")
        cursor.expect("=")
        if slot in slots:
            raise cursor.error(f"slot {slot} stands twice")
        what = "the name of a variable"
        slots[slot] = cursor.listed(lambda: cursor.name(what), "]") if cursor.accept("[") else [cursor.name(what)]

    cursor.listed(one, close)
    return slots
