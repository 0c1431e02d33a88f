"""`LayerHelper`, with which scripts write layers of their own out of operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.state import chosen
from fleet_paddle.mode import is_dynamic
from fleet_programs.definition.operator import Operator
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Initializer
from fleet_programs.program.program import Program, default_main_program, default_startup_program
from fleet_programs.program.variable import Parameter, Variable


class LayerHelper:
    """Adds operators, variables and parameters to the default programs, under the name of a layer.

        helper = LayerHelper("shifted", **locals())
        out = helper.create_variable_for_type_inference(helper.input_dtype())
        helper.append_op(type="scale", inputs={"X": x}, outputs={"Out": out}, attrs={"bias": 1.0})

    `kwargs` are the arguments of the layer: `name`, `param_attr`, `bias_attr` and `act` are looked at.
    """

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        if is_dynamic():
            raise NotSupportedError(
                f"LayerHelper({layer_type!r}): operators are added to programs; call paddle.enable_static(), or use "
                "functions of tensors"
            )
        self.layer_type = layer_type
        self.kwargs: Mapping[str, Any] = kwargs
        self._builder = LayerBuilder(layer_type, kwargs.get("name"))

    @property
    def name(self) -> str:
        """Of the layer: what the names of its variables begin with."""
        return self._builder.name

    @property
    def main_program(self) -> Program:
        """The program that operators are added to."""
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        """The program that gives parameters their first values."""
        return default_startup_program()

    @property
    def param_attr(self) -> ParamAttr | None:
        """The layer's argument, as a ParamAttr; None for False."""
        return ParamAttr.of(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> ParamAttr | None:
        """The layer's argument, as a ParamAttr; None for False."""
        return ParamAttr.of(self.kwargs.get("bias_attr"))

    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """The layer's argument of that name, as a list."""
        given = self.kwargs.get(input_param_name)
        found: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
        if not all(isinstance(one, Variable) for one in found):
            raise self._builder.not_a_variable(given, input_param_name)
        return found

    def input(self, input_param_name: str = "input") -> Variable:
        """The layer's argument of that name, which must be one variable."""
        found = self.multiple_input(input_param_name)
        if len(found) != 1:
            raise UsageError(f"{self.layer_type}: {input_param_name} must be one variable, got {len(found)}")
        return found[0]

    def input_dtype(self, input_param_name: str = "input") -> str:
        """The type that all inputs have."""
        types = {one.dtype for one in self.multiple_input(input_param_name)}
        if len(types) != 1:
            raise UsageError(f"{self.layer_type}: inputs must have one type, got {', '.join(sorted(types))}; cast them")
        return types.pop()

    def get_default_dtype(self) -> str:
        """The type of new floats."""
        return str(chosen.dtype)

    def append_op(self, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None) -> Operator:
        """Add an operator; the shapes of its outputs are found."""
        return self.main_program.current_block().append_op(type, inputs, outputs, attrs)

    def create_parameter(
        self,
        attr: Any,
        shape: Any,
        dtype: Any = "float32",
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> Parameter | None:
        """A parameter with its initialiser in the startup program; None if `attr` is False."""
        return self._builder.parameter(attr, list(shape), dtype, is_bias=is_bias, default=default_initializer)

    def create_variable_for_type_inference(
        self,
        dtype: Any,
        stop_gradient: bool = False,
        shape: Any = None,  # noqa: ARG002 - the operator finds it
    ) -> Variable:
        """A variable for the output of an operator, which finds its shape."""
        return self._builder.temporary(dtype, stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable as a block makes it."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, **kwargs: Any) -> Variable:
        """A variable of block 0."""
        return self.main_program.global_block().create_var(persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name: str, **kwargs: Any) -> tuple[Variable, bool]:
        """(the variable of that name, whether it had to be made)."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Initializer) -> Variable:
        """Let the startup program fill a variable that lasts."""
        block = self.startup_program.global_block()
        initializer(block.create_var(var.name, var.shape, var.dtype, persistable=True), block)
        return var

    def append_bias_op(self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None) -> Variable:
        """The variable plus a bias over its dimensions from `dim_start` on; as it is if `bias_attr` is False."""
        attr = self.kwargs.get("bias_attr")
        shape = list(input_var.shape)[dim_start:dim_end]
        bias = self.create_parameter(attr, shape, input_var.dtype, is_bias=True)
        if bias is None:
            return input_var
        return self._builder.apply(
            "elementwise_add", {"X": input_var, "Y": bias}, {"axis": dim_start}, dtype=input_var.dtype
        )

    def append_activation(self, input_var: Variable) -> Variable:
        """The variable through the layer's `act`: a name, or a dict of its type and settings."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        settings = {"type": act} if isinstance(act, str) else dict(act)
        return self._builder.apply(settings.pop("type"), {"X": input_var}, settings, dtype=input_var.dtype)
