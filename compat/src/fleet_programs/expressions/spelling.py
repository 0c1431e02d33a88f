"""How scripts call an operator, as one line of text: `leaky_relu(x, negative_slope->alpha=0.01, name)`.

A parameter is a name, the attribute that it sets if that has another name (`->alpha`), and its default (`=0.01`);
`name` alone stands for `name=None`. Before the function's name may stand where it is found: `F.` is 2.0's
`nn.functional`. From such a line come a function with that signature and its line in a stub.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PARAMETER = re.compile(r"(?P<name>\w+)(->(?P<attribute>\w+))?(=(?P<default>.+))?")
_BETWEEN = re.compile(r", (?![^(]*\))")
"""What is between parameters; commas of a default that is a tuple are not."""
_TYPES = {
    **dict.fromkeys(("act", "name"), "str | None"),
    **dict.fromkeys(("axis", "cond", "dim", "dtype", "out", "p", "scale", "shape", "start", "step"), "Any"),
    **dict.fromkeys(("dilation", "num_or_sections", "output_padding", "padding", "padding_value", "stride"), "Any"),
    **dict.fromkeys(("dilations", "paddings", "strides"), "Any"),
}
"""Types of parameters that their defaults do not tell."""


@dataclass(frozen=True)
class CallParameter:
    """One parameter of a call; `default` is Python's text for it, None if the parameter must be given."""

    name: str
    attribute: str
    default: str | None

    @property
    def kind(self) -> str:
        """Its type, for a stub."""
        if self.name in _TYPES or self.default in (None, "None"):
            return _TYPES.get(self.name, "Any")
        kind = type(eval(self.default, {})).__name__  # a literal that a row of ours has
        return "Any" if kind == "tuple" else kind

    @property
    def typed(self) -> str:
        """The parameter with its type and default, as a stub has it."""
        return self.of_type(self.kind)

    def of_type(self, kind: str) -> str:
        """The same with a type of the caller's."""
        return f"{self.name}: {kind}" + ("" if self.default is None else f" = {self.default}")


@dataclass(frozen=True)
class Spelling:
    """A name and its parameters."""

    home: str
    name: str
    parameters: tuple[CallParameter, ...]

    @classmethod
    def parse(cls, text: str) -> Spelling:
        """Read a line such as `softshrink(x, threshold->lambda=0.5, name)`."""
        dotted, _, rest = text.removesuffix(")").partition("(")
        home, _, name = dotted.rpartition(".")
        found = []
        for one in _BETWEEN.split(rest):
            match = _PARAMETER.fullmatch(one)
            assert match is not None, f"{text!r}: {one!r} is no parameter"
            own, default = match["name"], match["default"]
            found.append(CallParameter(own, match["attribute"] or own, "None" if one == "name" else default))
        return cls(home, name, tuple(found))

    @property
    def names(self) -> list[str]:
        """The names of all parameters, in their order."""
        return [one.name for one in self.parameters]

    @property
    def signature(self) -> str:
        """The parameters as Python writes them."""
        return ", ".join(one.name if one.default is None else f"{one.name}={one.default}" for one in self.parameters)

    def function(self, body: str, scope: Mapping[str, Any], doc: str, module: str) -> Callable[..., Any]:
        """A function with this signature that runs `body`, whose other names are those of `scope`.

        It is compiled from text, as dataclasses compile `__init__`, so a call costs what it costs by hand.
        """
        lines = "\n    ".join(body.splitlines())
        names = dict(scope)
        exec(compile(f"def {self.name}({self.signature}):\n    {lines}\n", f"<row {self.name}>", "exec"), names)
        made: Callable[..., Any] = names[self.name]
        made.__doc__, made.__module__ = doc, module
        return made

    def stub(self, kinds: Sequence[str], result: str, doc: str) -> str:
        """The function in a `.pyi`; the first parameters have the types of `kinds`."""
        first, others = self.parameters[: len(kinds)], self.parameters[len(kinds) :]
        given = [one.of_type(_optional(kind, one)) for one, kind in zip(first, kinds, strict=True)]
        typed = [*given, *(one.typed for one in others)]
        return f'def {self.name}({", ".join(typed)}) -> {result}:\n    """{doc}"""\n'


def _optional(kind: str, parameter: CallParameter) -> str:
    return kind if parameter.default != "None" or kind.endswith(("None", "Any")) else f"{kind} | None"
