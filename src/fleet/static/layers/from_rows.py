"""Layers made from the definitions of operators: one for each line that a definition has for version 1.x.

What every such layer does is here: check its variables, turn its arguments into attributes, add the operator, apply an
activation. `python -m fleet.static.layers.from_rows` prints the stub of `fleet.static.layers.table`, where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.static.layers.helper import Layer
from fleet.static.layers.ragged import new_offsets, offsets_of
from fleet.static.ops import definitions
from fleet.static.registry import Calls, Definition
from fleet.static.spelling import Spelling
from fleet.static.variable import Variable

TABLE = "fleet.static.layers.table"

HINTS = frozenset({"force_cpu", "use_cudnn"})
"""Parameters of 1.x that chose between ways to the same values; there is one way here."""
SPECIAL = ("name", "act", "out", "cond")
"""Parameters that set no attribute: the layer's name, an activation, and what is written to (the last two)."""
OFFSETS, OUT_OFFSETS = "Offsets", "OutOffsets"
"""Slots that no parameter fills: where the rows of the first variable begin, and where those of the result do."""


@dataclass(frozen=True)
class Row:
    """One way to call an operator, laid out for `add`."""

    definition: Definition
    kind: str
    """The stem of the layer's name."""
    slots: tuple[tuple[str, str], ...]
    """Slot, and the parameter that fills it."""
    attributes: tuple[tuple[str, Callable[[Any], Any]], ...]
    """Attribute, and what gives it its type."""
    to_attrs: Callable[[dict[str, Any]], dict[str, Any]] | None
    operands: tuple[str, ...]
    settings: tuple[str, ...]
    """The parameters that are variables, and those that set attributes."""


def row_of(definition: Definition, calls: Calls, spelling: Spelling) -> Row:
    """A definition's call by one of its spellings."""
    slots = tuple(slot for slot in definition.input_slots if slot != OFFSETS)
    operands, others = spelling.parameters[: len(slots)], spelling.parameters[len(slots) :]
    settings = [one for one in others if one.name not in SPECIAL and one.name not in HINTS]
    for one in settings:
        assert one.attribute in definition.attrs or calls.to_attrs, f"{spelling.name}: {one.name} sets no attribute"
    return Row(
        definition,
        calls.kind or definition.type,
        tuple((slot, one.name) for slot, one in zip(slots, operands, strict=True)),
        tuple((one.attribute, _typed(None if calls.to_attrs else definition.attrs[one.attribute])) for one in settings),
        calls.to_attrs,
        tuple(one.name for one in operands),
        tuple(one.name for one in settings),
    )


def _typed(default: Any) -> Callable[[Any], Any]:
    """What gives an argument the type of an attribute's default; numbers and texts are converted."""
    return type(default) if type(default) in (bool, int, float, str) else lambda value: value


def add(
    row: Row, operands: Sequence[Any], settings: Sequence[Any], name: str | None, act: str | None, out: Any
) -> Variable:
    """Add the operator of a row and return its result; an argument that is None leaves its attribute out."""
    layer, definition = Layer(row.kind, name), row.definition
    inputs = {
        slot: layer.variable(one, what)
        for (slot, what), one in zip(row.slots, operands, strict=True)
        if one is not None or definition.input_slots[slot] != "?"
    }
    given = {
        attribute: typed(value)
        for (attribute, typed), value in zip(row.attributes, settings, strict=True)
        if value is not None
    }
    first = operands[0]
    if OFFSETS in definition.input_slots and (first.lod is not None or not definition.input_slots[OFFSETS]):
        inputs[OFFSETS] = offsets_of(layer, first, row.operands[0])
    made = layer.temporary(first.dtype) if out is None else layer.target(out, list(inputs.values()))
    outputs = {next(iter(definition.output_slots)): made}
    if OUT_OFFSETS in definition.output_slots:
        outputs[OUT_OFFSETS] = new_offsets(layer, made)
    layer.op(definition.type, inputs, outputs, given if row.to_attrs is None else row.to_attrs(given))
    if made.dtype == "bool" or definition.grad is None:
        made.stop_gradient = True
    return layer.activate(made, act)


def layers() -> dict[str, Callable[..., Any]]:
    """Every layer of the table, by name."""
    made = {}
    for definition, calls, spelling in _spellings():
        row = row_of(definition, calls, spelling)
        given = {name: name if name in spelling.names else "None" for name in SPECIAL}
        written = given["out"] if given["out"] != "None" else given["cond"]
        body = (
            f"return add(row, ({', '.join(row.operands)},), ({''.join(f'{one}, ' for one in row.settings)}), "
            f"{given['name']}, {given['act']}, {written})"
        )
        made[spelling.name] = spelling.function(body, {"add": add, "row": row}, calls.doc, TABLE)
    return made


def _spellings() -> list[tuple[Definition, Calls, Spelling]]:
    return [
        (definition, calls, Spelling.parse(calls.v1))
        for definition in definitions()
        for calls in definition.calls
        if calls.v1
    ]


def stub() -> str:
    """The text of `table.pyi`."""
    lines = [
        '"""Layers made from the definitions of operators; `make docs` writes this stub."""',
        "# ruff: noqa: E501, N803  (one line for each layer; cos_sim's X and Y)",
        "# fmt: off",
        "",
        "from typing import Any",
        "",
        "from fleet.static.variable import Variable",
        "",
    ]
    found = sorted(_spellings(), key=lambda one: one[2].name)
    lines += [f"__all__ = [{', '.join(repr(one.name) for _, _, one in found)}]", ""]
    for definition, calls, spelling in found:
        lines += [spelling.stub("Variable", len(row_of(definition, calls, spelling).slots), calls.doc)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
