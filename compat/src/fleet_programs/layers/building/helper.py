"""What every layer does: append operators, make parameters, apply an activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.definition.registry import definition
from fleet_programs.expressions import names
from fleet_programs.expressions.appending import Appender
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Initializer, first_choice
from fleet_programs.program.program import Program, default_main_program, default_startup_program
from fleet_programs.program.variable import Parameter, Variable


class LayerBuilder(Appender):
    """Builds a layer call. `kind` is the stem of its name: `fc` gives `fc_0`, parameters `fc_0.w_0`, `fc_0.b_0`."""

    def __init__(self, kind: str, name: str | None = None) -> None:
        super().__init__(kind, default_main_program().current_block(), name)

    def parameter(
        self,
        attr: Any,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        is_bias: bool = False,
        default: Initializer | None = None,
        is_distributed: bool = False,
    ) -> Parameter | None:
        """A parameter as the user's ParamAttr says, with its initialiser in the startup program; None for False."""
        settings = ParamAttr.of(attr)
        if settings is None:
            return None
        if any(size <= 0 for size in shape):
            raise self.error(f"a parameter needs known sizes, got shape {list(shape)}")
        main = default_main_program().global_block()
        name = settings.name or names.generate(f"{self.name}.{'b' if is_bias else 'w'}", main.has_var)
        known = main.vars.get(name)
        if known is not None:
            shared = self._shared(known, shape, dtype, settings)
            settings.taken(shared)
            return shared
        startup = default_startup_program().global_block()
        self._check_start(startup.vars.get(name), shape, dtype)
        parameter = main.create_parameter(
            name,
            shape,
            dtype,
            trainable=settings.trainable,
            learning_rate=settings.learning_rate,
            regularizer=settings.regularizer,
            need_clip=settings.need_clip,
            is_distributed=is_distributed,
        )
        initializer = settings.initializer or first_choice(default, is_bias, settings.trainable)
        if name not in startup.vars:
            initializer(startup.create_var(name, shape, dtype, persistable=True), startup)
        settings.taken(parameter)
        return parameter

    def needed(self, attr: Any, shape: Sequence[int], dtype: str, is_bias: bool = False, **more: Any) -> Parameter:
        """`parameter`, of a layer that is nothing without it: UsageError for False."""
        made = self.parameter(attr, shape, dtype, is_bias=is_bias, **more)
        if made is None:
            raise self.error(f"{'bias_attr' if is_bias else 'param_attr'} must not be False; the layer needs it")
        return made

    def biased(self, var: Variable, attr: Any, size: int, axis: int) -> Variable:
        """The variable plus a trained bias of `size` numbers along `axis`; as it is if `attr` is False."""
        bias = self.parameter(attr, [size], var.dtype, is_bias=True)
        return var if bias is None else self.apply("elementwise_add", {"X": var, "Y": bias}, {"axis": axis}, var.dtype)

    def _shared(self, known: Variable, shape: Sequence[int], dtype: str, settings: ParamAttr) -> Parameter:
        if not isinstance(known, Parameter) or known.shape != tuple(shape) or known.dtype != dtype:
            raise self.error(
                f"{known.name!r} exists with shape {list(known.shape)} and dtype {known.dtype}, and cannot be shared "
                f"by a parameter of shape {list(shape)} and dtype {dtype}"
            )
        for name, usual in vars(ParamAttr(settings.name)).items():
            asked = getattr(settings, name)
            if name != "initializer" and asked not in (usual, getattr(known, name)):
                raise self.error(
                    f"{known.name!r} exists with {name}={getattr(known, name)}, and {name}={asked} is asked for here; "
                    "say it where the parameter is made"
                )
        if settings.initializer is not None and not _begins_so(known, settings.initializer):
            raise self.error(
                f"{known.name!r} exists and begins otherwise than with this initializer; give it where the parameter "
                "is made"
            )
        return known

    def _check_start(self, known: Variable | None, shape: Sequence[int], dtype: str) -> None:
        """Programs may share a startup program, and a parameter by its name, but not with two shapes."""
        if known is not None and (known.shape, known.dtype) != (tuple(shape), dtype):
            raise self.error(
                f"the startup program gives {known.name!r} a value of shape {list(known.shape)} and dtype {known.dtype}"
                f", which does not fit a parameter of shape {list(shape)} and dtype {dtype}; give this program a "
                "startup program of its own, or the parameter another name"
            )

    def activate(self, var: Variable, act: str | None) -> Variable:
        """The variable after an activation, which is given by the name of its operator."""
        if act is None:
            return var
        if not isinstance(act, str):
            raise UsageTypeError(f"{self.kind}: act must be the name of an activation, such as 'relu', got {act!r}")
        try:
            known = definition(act)
        except UsageError:
            raise self.error(f"there is no activation {act!r}; use relu, tanh, sigmoid, softmax, ...") from None
        if list(known.input_slots) == ["X", "Offsets"] and var.lod is not None:  # of each row: sequence_softmax
            return self.apply(act, {"X": var, "Offsets": self.block.var(var.lod)}, dtype=var.dtype)
        if list(known.input_slots) != ["X"]:
            raise self.error(f"{act!r} is no activation; use relu, tanh, sigmoid, softmax, ...")
        return self.apply(act, {"X": var}, dtype=var.dtype)

    def target(self, out: Any, inputs: Sequence[Variable]) -> Variable:
        """A variable that a user gives for the result; it cannot be one of the inputs."""
        given = self.variable(out, "out")
        if any(given.name == one.name for one in inputs):
            raise self.error(f"out {given.name!r} is also an input and would change under it; give another, or none")
        return given

    def variable(self, value: Any, what: str = "input") -> Variable:
        """UsageTypeError unless it is a Variable."""
        if not isinstance(value, Variable):
            raise self.not_a_variable(value, what)
        return value


def _begins_so(parameter: Parameter, initializer: Initializer) -> bool:
    """Whether the startup program begins a parameter as an initialiser would; True where it does not begin it."""
    ops = [op for op in default_startup_program().global_block().ops if parameter.name in op.output_names]
    if not ops:
        return True
    block = Program().global_block()
    initializer(block.create_var(parameter.name, parameter.shape, parameter.dtype, persistable=True), block)
    return [(op.type, op.attrs) for op in ops] == [(op.type, op.attrs) for op in block.ops]
