"""Layers made from the definitions of operators: one for each line that a definition has for version 1.x.

What every such layer does is here: check its variables, turn its arguments into attributes, add the operator, apply an
activation. `python -m fleet_programs.layers.building.from_rows` prints the stub of `fleet_programs.layers.table`, where
those of this package are; another one makes its own from its own definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_programs.definition.dtypes import canonical
from fleet_programs.definition.registry import Calls, Definition
from fleet_programs.expressions.callsite import prefix
from fleet_programs.expressions.spelling import Spelling
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.layers.building.sizes import shape_and_sizes
from fleet_programs.operators import OWN
from fleet_programs.operators.common.making import integers, whole
from fleet_programs.program.variable import Variable

_KINDS = {"": "Variable", "?": "Variable | None", "*": "Sequence[Variable] | Variable"}
"""Mark of a slot -> the type of what is given for it."""

HINTS = frozenset({"force_cpu", "inplace", "use_cudnn"})
"""Parameters of 1.x that chose between ways to the same values; there is one way here."""
SIZES = "Sizes"
"""The slot for sizes that are variables, which are given among the numbers of `shape`."""
SPECIAL = ("name", "act", "out", "cond")
"""Parameters that set no attribute: the layer's name, an activation, and what is written to (the last two)."""
OFFSETS, OUT_OFFSETS = "Offsets", "OutOffsets"
"""Slots that no parameter fills: where the rows of the first variable begin, and where those of the result do."""


@dataclass(frozen=True)
class Row:
    """One way to call an operator, laid out for `add`."""

    definition: Definition
    slots: tuple[tuple[str, str, str], ...]
    """Slot, its mark, and the parameter that fills it."""
    attributes: tuple[tuple[str, Callable[[Any], Any], bool], ...]
    """Attribute, what gives it its type, and whether None leaves it out."""
    calls: Calls
    operands: tuple[str, ...]
    settings: tuple[str, ...]
    """The parameters that are variables, and those that set attributes."""
    outputs: tuple[tuple[str, bool], ...]
    """Slot, and whether no gradient comes back through it; the last is there only if the call keeps something."""
    returns: tuple[str, ...]
    takes_sizes: bool
    fills_slots: bool
    """Whether there are slots that no parameter fills."""


def row_of(definition: Definition, calls: Calls, spelling: Spelling) -> Row:
    """A definition's call by one of its spellings."""
    slots = _filled(definition)
    operands, others = spelling.parameters[: len(slots)], spelling.parameters[len(slots) :]
    settings = [one for one in others if one.name not in SPECIAL and one.name not in HINTS]
    for one in settings:
        assert one.attribute in definition.attrs or calls.to_attrs, f"{spelling.name}: {one.name} sets no attribute"
    grad, outputs = definition.grad, [slot for slot in definition.output_slots if slot != OUT_OFFSETS]
    return Row(
        definition,
        tuple((slot, mark, one.name) for (slot, mark), one in zip(slots.items(), operands, strict=True)),
        tuple((one.attribute, _typing(one.attribute, definition, calls), one.default == "None") for one in settings),
        calls,
        tuple(one.name for one in operands),
        tuple(one.name for one in settings),
        tuple((slot, grad is None or slot not in (grad.outs or outputs)) for slot in outputs),
        calls.returns or tuple(outputs)[:1],
        SIZES in definition.input_slots,
        len(slots) < len(definition.input_slots),
    )


def _typing(attribute: str, definition: Definition, calls: Calls) -> Callable[[Any], Any]:
    """What gives an argument the type of an attribute: a number, a text, a type, or a list of numbers."""
    if attribute.endswith("dtype"):
        return canonical
    default = None if calls.to_attrs else definition.attrs[attribute]
    if isinstance(default, list) and SIZES not in definition.input_slots:
        return _numbers
    return _CONVERSIONS.get(type(default), lambda value: value)


def _given(value: Any) -> Any:
    if value is None:
        raise TypeError(value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(value)
    return float(value)


def _switch(value: Any) -> bool:
    if value not in (True, False):
        raise ValueError(value)
    return bool(value)


def _numbers(value: Any) -> list[int]:
    return list(integers(value))


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {bool: _switch, int: whole, float: _number, str: str}
_MUST_BE = {
    _switch: "True or False",
    whole: "a whole number",
    _number: "a number",
    _numbers: "a whole number, or a list of them",
    canonical: "the name of a type",
}
"""What an argument must be that could not be converted."""


def add(row: Row, operands: Sequence[Any], settings: Sequence[Any], name: str | None, act: str | None, out: Any) -> Any:
    """Add the operator of a row and return its result; an argument that is None leaves its slot or attribute out."""
    type = row.definition.type
    layer = LayerBuilder(row.calls.kind or type, name)
    inputs = {
        slot: _several(layer, one, what) if mark == "*" else layer.variable(one, what)
        for (slot, mark, what), one in zip(row.slots, operands, strict=True)
        if one is not None or mark != "?"
    }
    attrs = _attributes(row, layer, settings)
    keeps = row.calls.keeps is None or row.calls.keeps(_variables(inputs), attrs)
    made = {} if out is None else {row.outputs[0][0]: layer.target(out, _variables(inputs))}
    if row.fills_slots:
        _add_slots(row, layer, inputs, attrs)
    _refuse_variables(layer, attrs)
    for slot, _ in row.outputs[len(made) : None if keeps else -1]:
        made[slot] = layer.temporary()
    found = tuple(made[slot] for slot in row.returns)
    if OUT_OFFSETS in row.definition.output_slots:
        made[OUT_OFFSETS] = new_offsets(layer, found[0])
    layer.op(type, inputs, made, attrs)
    for slot, stops in row.outputs:
        if slot in made:
            made[slot].stop_gradient = stops or made[slot].dtype == "bool"
    return found if len(found) > 1 else layer.activate(found[0], act)


def _attributes(row: Row, layer: LayerBuilder, settings: Sequence[Any]) -> dict[str, Any]:
    given = {}
    for (attribute, typed, is_optional), what, value in zip(row.attributes, row.settings, settings, strict=True):
        if value is None and is_optional:
            continue
        try:
            given[attribute] = value if isinstance(value, Variable) else typed(_given(value))
        except (TypeError, ValueError, UsageError):
            must = _MUST_BE.get(typed, "given")
            raise UsageTypeError(f"{prefix()}{layer.kind}: {what} must be {must}, got {value!r}") from None
    return given if row.calls.to_attrs is None else row.calls.to_attrs(given)  # which may know what a variable means


def _variables(inputs: dict[str, Any]) -> list[Variable]:
    return [one for given in inputs.values() for one in (given if isinstance(given, list) else [given])]


def _refuse_variables(layer: LayerBuilder, attrs: dict[str, Any]) -> None:
    for what, value in attrs.items():
        if isinstance(value, Variable):
            raise NotSupportedError(
                f"{prefix()}{layer.kind}: {what} must be a number; a shape that depends on values is not built"
            )


def _add_slots(row: Row, layer: LayerBuilder, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Fill the slots that no parameter fills: sizes that are variables, and the offsets of ragged rows."""
    if row.takes_sizes:
        more, shape = shape_and_sizes(layer, attrs["shape"])
        inputs |= more
        attrs |= shape
    slots = row.definition.input_slots
    if OFFSETS in slots:
        first = next(iter(inputs.values()))
        if first.lod is not None or not slots[OFFSETS]:
            inputs[OFFSETS] = offsets_of(layer, first, row.operands[0])


def _several(layer: LayerBuilder, given: Any, what: str) -> list[Variable]:
    if not isinstance(given, Variable | list | tuple):
        raise UsageTypeError(f"{prefix()}{layer.kind}: {what} must be Variables in a list, got {type(given).__name__}")
    found = [given] if isinstance(given, Variable) else [layer.variable(one, what) for one in given]
    if not found:
        raise layer.error(f"{what} must hold at least one Variable")
    return found


def layers(definitions: Iterable[Definition], module: str) -> dict[str, Callable[..., Any]]:
    """The layers of definitions, by name, for the module that will hold them."""
    made = {}
    for definition, calls, spelling in _spellings(definitions):
        row = row_of(definition, calls, spelling)
        given = {name: name if name in spelling.names else "None" for name in SPECIAL}
        operands, settings = ("".join(f"{one}, " for one in several) for several in (row.operands, row.settings))
        written = given["out"] if given["out"] != "None" else given["cond"]
        body = f"return add(row, ({operands}), ({settings}), {given['name']}, {given['act']}, {written})"
        made[spelling.name] = spelling.function(body, {"add": add, "row": row}, calls.doc, module)
    return made


def _spellings(definitions: Iterable[Definition]) -> list[tuple[Definition, Calls, Spelling]]:
    return [
        (definition, calls, Spelling.parse(calls.v1))
        for definition in definitions
        for calls in definition.calls
        if calls.v1
    ]


def _filled(definition: Definition) -> dict[str, str]:
    """The slots that parameters fill, and their marks."""
    return {slot: mark for slot, mark in definition.input_slots.items() if slot not in (SIZES, OFFSETS)}


def stub(definitions: Iterable[Definition]) -> str:
    """The text of `table.pyi` beside the module that holds their layers."""
    found = sorted(_spellings(definitions), key=lambda one: one[2].name)
    functions = []
    for definition, calls, spelling in found:
        kinds = [_KINDS[mark] for mark in _filled(definition).values()]
        result = "Variable" if len(calls.returns) < 2 else f"tuple[{', '.join(['Variable'] * len(calls.returns))}]"
        functions += [spelling.stub(kinds, result, calls.doc)]
    has_capitals = any(not name.islower() for _, _, spelling in found for name in spelling.names)
    lines = [
        '"""Layers made from the definitions of operators; `make docs` writes this stub."""',
        f"# ruff: noqa: E501{', N803' if has_capitals else ''}  (one line per layer, with scripts' names)",
        "# fmt: off",
        "",
        *(["from collections.abc import Sequence"] if any("Sequence[" in one for one in functions) else []),
        "from typing import Any",
        "",
        "from fleet_programs.program.variable import Variable",
        "",
        f"__all__ = [{', '.join(repr(one.name) for _, _, one in found)}]",
        "",
    ]
    return "\n".join(lines + functions) + "\n"


if __name__ == "__main__":
    print(stub(OWN), end="")
