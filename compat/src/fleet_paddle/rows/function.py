"""One function of 2.0 as a row, and the Python function that is compiled from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fleet_paddle.imperative.state import chosen
from fleet_paddle.imperative.tensor import Parameter, Tensor, as_paddle
from fleet_paddle.programs.variables.missing import not_built
from fleet_paddle.variables import has_variable
from fleet_programs.expressions.spelling import Spelling

TABLES = {"": "fleet_paddle.imperative.functions.table", "F": "fleet_paddle.imperative.nn.functional.table"}
"""Where 2.0 has a function -> the module that has it here."""

_TENSORS = frozenset({Tensor, Parameter, torch.Tensor})


@dataclass(frozen=True)
class Function:
    """How a function is called and what it does."""

    spelling: Spelling
    doc: str
    of_tensors: Callable[..., Any]
    """Takes the arguments in their order, `name` left out; what it makes becomes our tensors."""
    of_variables: Callable[..., Any] | None
    """Takes the arguments in their order, `name` too; None if it is not built for programs."""
    layer: str = ""
    """The layer class that calls the function."""
    num_operands: int = 1
    """How many of its first arguments are tensors: a layer class is called with these and made with the rest."""
    is_maker: bool = False
    """Whether it is given no tensor, such as `zeros(shape)`: after `enable_static()` it makes a variable."""
    takes_list: bool = False
    """Whether its first argument is a list of tensors."""
    gives: str = "X"
    """The type of its result, for a stub: X is that of its operands."""

    def compiled(self) -> Callable[..., Any]:
        """The function itself. What is called most comes first, a tensor; then variables, and last what torch takes."""
        names = self.spelling.names
        given, whole = ", ".join(name for name in names if name != "name"), ", ".join(names)
        if self.is_maker:
            body = f"if chosen.programs or has_variable(({given},)):\n    return of_variables({whole})\n"
            body += f"return as_paddle(of_tensors({given}))"
        else:
            first = names[0]
            is_list = f"{first}.__class__ is list and {first} and {first}[0].__class__ in TENSORS"
            is_tensor = is_list if self.takes_list else f"{first}.__class__ in TENSORS"
            body = f"if {is_tensor}:\n    made = of_tensors({given})\n"
            body += "    if made.__class__ is Plain and has_sizes(made):\n        made.__class__ = Tensor\n"
            body += "        return made\n"
            body += f"    return as_paddle(made)\nreturn otherwise(({given},), ({whole},))"
        scope = {
            "Plain": torch.Tensor,
            "Tensor": Tensor,
            "TENSORS": _TENSORS,
            "as_paddle": as_paddle,
            "has_sizes": torch.Tensor.dim,
            "otherwise": self._otherwise,
            "chosen": chosen,
        }
        scope |= {"has_variable": has_variable, "of_tensors": self.of_tensors, "of_variables": self.of_variables}
        return self.spelling.function(body, scope, self.doc, TABLES[self.spelling.home])

    def _otherwise(self, given: tuple[Any, ...], whole: tuple[Any, ...]) -> Any:
        if not has_variable(given):
            return as_paddle(self.of_tensors(*given))
        if self.of_variables is None:
            raise not_built(self.spelling.name)
        return self.of_variables(*whole)

    def stub(self) -> str:
        """Its lines in a `.pyi`."""
        kinds = [] if self.is_maker else ["X" if self.gives == "X" else "Any"] * self.num_operands
        return self.spelling.stub(kinds, self.gives, self.doc)

    @property
    def is_method(self) -> bool:
        """Whether its first argument is the tensor that a method of its name would be called on."""
        return not self.is_maker and self.spelling.names[0] in ("x", "input")


def function(
    text: str,
    doc: str,
    of_tensors: Callable[..., Any],
    of_variables: Callable[..., Any] | None,
    layer: str = "",
    num_operands: int = 1,
    **more: Any,
) -> Function:
    """A row whose spelling is text of `fleet_programs.expressions.spelling`. `more` are other fields of `Function`."""
    return Function(Spelling.parse(text), doc, of_tensors, of_variables, layer, num_operands, **more)


def maker(text: str, doc: str, of_tensors: Callable[..., Any], of_variables: Callable[..., Any]) -> Function:
    """A row of a function that makes a tensor or a variable of numbers, as the mode says."""
    return function(text, doc, of_tensors, of_variables, is_maker=True, num_operands=0, gives="Tensor")
