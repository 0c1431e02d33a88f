"""Operators of a program: a type, named inputs and outputs, attributes; plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.errors import UsageError
from fleet_programs.definition.literals import plain, quoted, write_name, write_value
from fleet_programs.definition.refused import Refused
from fleet_programs.definition.registry import definition

Slots = dict[str, list[str]]

FORWARD, BACKWARD, OPTIMIZE, SCHEDULE, REMOTE = "forward", "backward", "optimize", "schedule", "remote"
ROLES = (FORWARD, BACKWARD, OPTIMIZE, SCHEDULE, REMOTE)


class Operator:
    """One operation. `inputs` and `outputs` map a slot, such as `X`, to the names of variables.

    `role` says which part of training it belongs to; `callsite` where in the user's script it was made, and `parts` the
    operators that one of a pass stands for (both not compared, not saved); `scope` is the name_scope it was made in.
    """

    def __init__(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]] | None = None,
        outputs: Mapping[str, Sequence[str]] | None = None,
        attrs: Mapping[str, Any] | None = None,
        *,
        role: str = FORWARD,
        callsite: str = "",
        scope: str = "",
        parts: Sequence[Operator] = (),
    ) -> None:
        self.type = type
        self.inputs: Slots = {slot: list(names) for slot, names in (inputs or {}).items()}
        self.outputs: Slots = {slot: list(names) for slot, names in (outputs or {}).items()}
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.role = role
        self.callsite = callsite
        self.scope = scope
        self.parts = tuple(parts)

    def input(self, slot: str) -> list[str]:
        """Names in an input slot; none if the slot is not there."""
        return self.inputs.get(slot, [])

    def output(self, slot: str) -> list[str]:
        """Names in an output slot; none if the slot is not there."""
        return self.outputs.get(slot, [])

    @property
    def input_names(self) -> list[str]:
        """All variables that are read, in the order of the slots."""
        return [name for names in self.inputs.values() for name in names]

    @property
    def output_names(self) -> list[str]:
        """All variables that are written, in the order of the slots."""
        return [name for names in self.outputs.values() for name in names]

    @property
    def in_place(self) -> set[str]:
        """Variables that are read and written: the operation changes them in place."""
        return set(self.input_names) & set(self.output_names)

    input_arg_names, output_arg_names = input_names, output_names

    desc = Refused("print(operator) shows it; inputs, outputs and attrs are dictionaries to read and to change")

    @property
    def attr_names(self) -> list[str]:
        """The attributes that were given."""
        return list(self.attrs)

    def all_attrs(self) -> dict[str, Any]:
        """The attributes that were given, by name."""
        return dict(self.attrs)

    def has_attr(self, name: str) -> bool:
        """Whether an attribute was given, or has a value when left out."""
        return name in self.attrs or name in definition(self.type).attrs

    def attr(self, name: str) -> Any:
        """An attribute, or what the op's definition says it is when left out."""
        return self.attrs[name] if name in self.attrs else definition(self.type).attrs[name]

    def effective_attrs(self) -> dict[str, Any]:
        """All attributes: its own, and what the definition says of those it leaves out."""
        return {**self._usual_attrs(), **self.attrs}

    def _usual_attrs(self) -> Mapping[str, Any]:
        try:
            return definition(self.type).attrs
        except UsageError:  # printed and compared all the same; it will not read back
            return {}

    def copy(self) -> Operator:
        """An equal operator; changing one does not change the other."""
        return Operator(
            self.type,
            self.inputs,
            self.outputs,
            self.attrs,
            role=self.role,
            callsite=self.callsite,
            scope=self.scope,
            parts=self.parts,
        )

    def renamed(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> Operator:
        """A copy in which variables have other names."""
        other = self.copy()
        other.inputs = {slot: [inputs.get(name, name) for name in names] for slot, names in self.inputs.items()}
        other.outputs = {slot: [outputs.get(name, name) for name in names] for slot, names in self.outputs.items()}
        return other

    def __iter__(self) -> Iterator[str]:
        raise TypeError("an Operator is not iterable; it has input_names and output_names")

    def __repr__(self) -> str:
        """Its line in the text of a program: attributes that are as usual are left out."""
        line = f"{write_name(self.type)}({_slots(self.inputs)})"
        if self.outputs:
            line = f"{{{_slots(self.outputs)}}} = {line}"
        usual = self._usual_attrs()
        for key, value in self.effective_attrs().items():
            text = write_value(plain(value, f"attribute {key} of {self.type}"))
            if key not in usual or text != write_value(plain(usual[key], key)):
                line += f" {write_name(key)}={text}"
        if self.role != FORWARD:
            line += f" @{self.role}"
        return line + (f" in {quoted(self.scope)}" if self.scope else "")

    __str__ = __repr__


def _slots(slots: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{write_name(slot)}={_names(names)}" for slot, names in slots.items())


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(map(write_name, names))
    return listed if len(names) == 1 else f"[{listed}]"
