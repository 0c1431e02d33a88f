"""A block: variables by name, and operators in the order in which they run."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.refused import Refused
from fleet_programs.expressions import names
from fleet_programs.expressions.callsite import callsite, prefix
from fleet_programs.program.fitting import complete, outside
from fleet_programs.program.variable import Parameter, Variable

if TYPE_CHECKING:
    from fleet_programs.parameters.initializer import Initializer
    from fleet_programs.program.program import Program

Given = Variable | str | Sequence[Variable | str] | None
Slots = Mapping[str, Given] | None
Attrs = Mapping[str, Any] | None


class Block:
    """Part of a program. Block 0 is what the Executor runs; others belong to operators such as listen_and_serv."""

    def __init__(self, program: Program, index: int, parent: int = -1) -> None:
        self.program = program
        self.index = index
        self.parent = parent
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []

    desc = Refused("print(program) shows it; vars and ops are what it holds")

    @property
    def current(self) -> Block:
        """The block that layers add to at this time, which is the default program's and need not be this one."""
        return self.program.default().current_block()

    def has_var(self, name: str) -> bool:
        """Whether this block or one around it has the variable."""
        return self._find(name) is not None

    def var(self, name: str) -> Variable:
        """A variable of this block or of one around it; UsageError if there is none."""
        found = self._find(name)
        if found is None:
            inner = self.program.owner_of(name)
            if inner:
                raise UsageError(outside(name, inner))
            near = difflib.get_close_matches(name, self.vars, 1)
            hint = f"did you mean {near[0]!r}?" if near else "print(program) shows those it has"
            raise UsageError(f"the program has no variable {name!r}; {hint}")
        return found

    def levels_of(self, var: Variable) -> list[str]:
        """The variables that say where the rows of a ragged one begin, then where groups of rows do; [] for others."""
        found: list[str] = []
        while var.lod is not None and var.lod not in found:
            found.append(var.lod)
            var = self.var(var.lod)
        return found

    def _find(self, name: str) -> Variable | None:
        found = self.vars.get(name)
        if found is None and self.parent >= 0:
            return self.program.blocks[self.parent]._find(name)
        return found

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int] = (),
        dtype: Any = "float32",
        *,
        initializer: Initializer | None = None,
        type: str | None = None,
        **more: Any,
    ) -> Variable:
        """Add a variable; without a name it is a new temporary. An `initializer` adds the operator that fills it.

        `type` is one of VarType, which is another word for the variable's `kind`.
        """
        if type is not None:
            more["kind"] = type
        made = self.add_var(
            Variable(self, name or names.generate("_generated_var", self.has_var), shape, dtype, **more)
        )
        if initializer is not None:
            initializer(made, self)
        return made

    def create_parameter(self, name: str, shape: Sequence[int], dtype: Any = "float32", **more: Any) -> Parameter:
        """Add a parameter."""
        parameter = self.add_var(Parameter(self, name, shape, dtype, **more))
        assert isinstance(parameter, Parameter)
        return parameter

    def add_var(self, var: Variable) -> Variable:
        """Add a variable that was made for this block; the one of its name if they are the same, or UsageError."""
        known = self.vars.get(var.name)
        if known is not None:
            if _nature(known) != _nature(var):
                raise UsageError(
                    f"{prefix()}there is a variable {known!r} already, and {var!r} is asked for; "
                    "give one of them another name"
                )
            return known
        var.block = self
        self.vars[var.name] = var
        self.program.changed()
        return var

    def append_op(
        self, type: str, inputs: Slots = None, outputs: Slots = None, attrs: Attrs = None, *, role: str | None = None
    ) -> Operator:
        """Add an operator at the end, after its arguments were checked and the shapes of its outputs found."""
        return self.insert_op(len(self.ops), type, inputs, outputs, attrs, role=role)

    def insert_op(
        self,
        index: int,
        type: str,
        inputs: Slots = None,
        outputs: Slots = None,
        attrs: Attrs = None,
        *,
        role: str | None = None,
    ) -> Operator:
        """`append_op` at another place."""
        op = Operator(
            type,
            _slots(type, inputs),
            _slots(type, outputs),
            {name: value for name, value in (attrs or {}).items() if value is not None},
            role=role or self.program.role,
            callsite=callsite(),
            scope=names.current_scope(),
        )
        complete(op, self)
        self.ops.insert(index, op)
        self.program.changed()
        return op

    def take_over(self, other: Block) -> None:
        """Become what another block is; variables that both have stay the same objects."""
        for name, var in other.vars.items():
            known = self.vars.get(name)
            if type(known) is type(var):
                known.__dict__.update(var.__dict__)
                other.vars[name] = known
            other.vars[name].block = self
        self.vars, self.ops, self.parent = other.vars, other.ops, other.parent

    def drop_unused(self, kept: Iterable[str] = ()) -> None:
        """Leave out the variables that no operator uses, except parameters and those `kept`."""
        used = {name for op in self.ops for name in (*op.input_names, *op.output_names)} | set(kept)
        used |= {name for var in self.vars.values() if var.name in used for name in self.levels_of(var)}
        self.vars = {
            name: var
            for name, var in self.vars.items()
            if name in used or (var.persistable and isinstance(var, Parameter))
        }

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of this block, in the order in which they were added."""
        return [var for var in self.vars.values() if isinstance(var, Parameter)]

    def all_parameters(self) -> list[Parameter]:
        """`parameters`, as PaddlePaddle calls them."""
        return self.parameters


def _nature(var: Variable) -> tuple[object, ...]:
    """What two variables of one name must share to be one."""
    return type(var), var.shape, var.dtype, var.kind, var.lod, var.persistable, var.is_data, var.stop_gradient


def _slots(type: str, given: Slots) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {}
    for slot, values in (given or {}).items():
        if values is None:
            continue
        several = [values] if isinstance(values, Variable | str) else list(values)
        for value in several:
            if not isinstance(value, Variable | str):
                raise UsageTypeError(
                    f"{type}: {slot} must be a Variable of the program, got {value.__class__.__name__}; "
                    "make one with static.data() or layers.assign()"
                )
        slots[slot] = [value if isinstance(value, str) else value.name for value in several]
    return slots
