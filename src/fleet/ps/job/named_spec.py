"""Rules, initialisers and entries as declared: a name that the native core knows, and its arguments."""

from dataclasses import dataclass
from typing import ClassVar

from fleet.errors import UsageError
from fleet.json_form import JsonForm, shown
from fleet.ps.job.checks import checked, checked_name, set_frozen
from fleet.strategy.check import Finite, Many, Text

A_RULE = "fleet.rules, for example fleet.rules.Adagrad(lr=0.1)"
AN_INITIALIZER = "fleet.initializers, for example fleet.initializers.Normal(std=0.01)"
AN_ENTRY = "fleet.entries, for example fleet.entries.CountFilterEntry(5)"


@dataclass(frozen=True)
class NamedSpec(JsonForm):
    """A name the native core knows and its arguments, sorted by name; switches are 0 or 1."""

    name: str
    args: tuple[tuple[str, float], ...] = ()

    kind: ClassVar[str] = "spec"

    def __post_init__(self) -> None:
        name = checked_name(self.kind, self.name)
        pairs = [tuple(pair) for pair in self.args]
        owner = f"{self.kind} {name}"
        args = {checked_name(owner, key): checked(owner, str(key), value, Finite()) for key, value in pairs}
        if len(args) < len(pairs):
            raise UsageError(f"{owner}: an argument is given twice among {shown([key for key, _ in pairs])}")
        set_frozen(self, name=name, args=tuple(sorted(args.items())))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in self.args)})"


@dataclass(frozen=True)
class RuleSpec(NamedSpec):
    """How a gradient changes a row or a dense block; see `fleet.rules`."""

    kind: ClassVar[str] = "rule"


@dataclass(frozen=True)
class InitializerSpec(NamedSpec):
    """The first value of a row; see `fleet.initializers`."""

    kind: ClassVar[str] = "initializer"


@dataclass(frozen=True)
class EntrySpec(NamedSpec):
    """When a key deserves a row; see `fleet.entries`.

    `inputs` names the columns of a batch that the worker sends along with the keys: shows and clicks, or nothing.
    """

    inputs: tuple[str, ...] = ()

    kind: ClassVar[str] = "entry"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_frozen(self, inputs=checked(f"entry {self.name}", "inputs", self.inputs, Many(Text())))
