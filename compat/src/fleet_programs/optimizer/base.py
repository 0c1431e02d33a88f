"""Optimizers: `minimize` adds gradients, clips and one update operator for each parameter to the program of a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, ClassVar, NamedTuple

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.backward.backward import ParamsGrads, append_backward
from fleet_programs.backward.clip import GradientClip, clipped
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import OPTIMIZE, Operator
from fleet_programs.executor.scope import Scope, global_scope
from fleet_programs.expressions import names
from fleet_programs.parameters.initializer import Constant
from fleet_programs.parameters.settings import number
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program, default_main_program, default_startup_program, program_guard
from fleet_programs.program.variable import Parameter, Penalty, Variable


class Accumulator(NamedTuple):
    """What an update keeps for each parameter: its slot, the word in its name, its first value."""

    slot: str
    word: str
    start: float = 0.0
    is_count: bool = False
    """Whether it is one number, not one for each weight; under a sparse gradient, one for each row."""


STEP = Accumulator("Step", "step", is_count=True)


class Optimizer:
    """The base of all: a subclass names its update operator, that operator's attributes and accumulators.

    `learning_rate` is a number, kept in a variable of its own (`learning_rate_0`), or a Variable, such as a schedule of
    `layers` makes. `regularization` is L1Decay or L2Decay, unless a parameter has its own. `grad_clip` takes the place
    of `set_gradient_clip`. `name` becomes part of the names of accumulators. `parameter_list` limits what is trained.
    """

    type: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            type.__setattr__(cls, "__init__", _says_what_was_meant(cls.__init__))

    def __init__(
        self,
        learning_rate: float | Variable,
        regularization: Penalty | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
    ) -> None:
        own = self.__class__.__name__
        if self.__class__ is Optimizer:
            raise UsageTypeError("Optimizer is the base of optimizers; use SGD, Adam, ...")
        if not isinstance(learning_rate, Variable):
            learning_rate = number(own, "learning_rate", learning_rate, least=0)
        if regularization is not None and not isinstance(regularization, Penalty):
            raise UsageTypeError(f"{own}: regularization must be L1Decay or L2Decay, got {regularization!r}")
        if grad_clip is not None and not isinstance(grad_clip, GradientClip):
            raise UsageTypeError(f"{own}: grad_clip must be one of static.clip, got {grad_clip!r}")
        if name == "":
            raise UsageError(f"{own}: name must have at least one character, got {name!r}")
        self.regularization = regularization
        self.grad_clip = grad_clip
        self.name = name
        self.parameter_list = parameter_list
        self._learning_rate: float | Variable = learning_rate
        self._rates: dict[int, str] = {}

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002 - for those that treat parameters differently
        """Attributes of the update operator of a parameter."""
        return {}

    def accumulators(self) -> Sequence[Accumulator]:
        """What the update operator keeps."""
        return ()

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], ParamsGrads]:
        """Add all that a step of training needs; returns clips and updates, and (parameter, gradient) pairs.

        Accumulators get their first values in `startup_program`, or in the default one.
        """
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,  # noqa: ARG002 - gradients have no first values
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> ParamsGrads:
        """Add the gradients alone."""
        chosen = self.parameter_list if parameter_list is None else parameter_list
        pairs = append_backward(loss, chosen, no_grad_set, callbacks)
        if not pairs:
            raise UsageError(
                f"{self.__class__.__name__}: loss {loss.name!r} depends on no trainable parameter; "
                "look at trainable, stop_gradient, parameter_list and no_grad_set"
            )
        return pairs

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: ParamsGrads
    ) -> list[Operator]:
        """Add the updates to the loss's program, and first values to a startup program."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Add the updates, by gradients that `backward` has given; first values go to the default startup program."""
        pairs = list(params_grads)
        if not pairs:
            raise UsageError(f"{self.__class__.__name__}: params_grads is empty; backward() gives it")
        for parameter, _ in pairs:
            if not isinstance(parameter, Parameter):
                raise UsageTypeError(f"params_grads must hold pairs of parameter and gradient, got {parameter!r}")
        block = pairs[0][0].block
        before = len(block.ops)
        with block.program.adding(OPTIMIZE):
            rate = self._rate(block)
            rates: dict[float, str] = {1.0: rate}
            for parameter, gradient in clipped(pairs, block, self.grad_clip):
                if parameter.learning_rate not in rates:
                    rates[parameter.learning_rate] = _scaled(block, rate, parameter.learning_rate)
                self._update(block, parameter, gradient, rates[parameter.learning_rate])
        return block.ops[before:]

    def get_lr(self, scope: Scope | None = None) -> float:
        """The learning rate as it is now; one that the program computes can be fetched like any other variable."""
        found = {name: float(tensor.item()) for name, tensor in self._numbers(scope).items()}
        if len(set(found.values())) > 1:
            raise UsageError(
                f"the programs of this optimizer have different learning rates, {found}; fetch one by name"
            )
        return next(iter(found.values()))

    def set_lr(self, value: float, scope: Scope | None = None) -> None:
        """Another learning rate from the next run on, after the startup program has run.

        It is that of every program that this optimizer minimizes in and whose startup program has run in the scope.
        """
        rate = number(self.__class__.__name__, "learning rate", value, least=0)
        for tensor in self._numbers(scope).values():
            tensor.fill_(rate)

    def _global_learning_rate(self, program: Program | None = None) -> Variable | None:
        """The variable of the learning rate in a program; None before `minimize` in it."""
        block = (default_main_program() if program is None else program).global_block()
        given = self._learning_rate
        name = given.name if isinstance(given, Variable) else self._rates.get(block.program.serial)
        return None if name is None or not block.has_var(name) else block.var(name)

    def _numbers(self, scope: Scope | None) -> dict[str, Any]:
        if isinstance(self._learning_rate, Variable):
            raise UsageError(
                f"the learning rate is computed by the program as {self._learning_rate.name!r}; fetch that"
            )
        tensors = (global_scope() if scope is None else scope).tensors
        found = {name: tensors[name] for name in self._rates.values() if name in tensors}
        if not found:
            raise NotReadyError("the learning rate has no value yet; call minimize() and run the startup program first")
        return found

    def _rate(self, block: Block) -> str:
        """The variable of the learning rate in a program."""
        given, serial = self._learning_rate, block.program.serial
        if isinstance(given, Variable):
            if not block.has_var(given.name):
                raise UsageError(f"learning rate {given.name!r} is not in the loss's program; make it there")
            return given.name
        if serial not in self._rates:
            name = self._rates[serial] = names.generate("learning_rate", block.has_var)
            _persistable(block, name, (1,), "float32", given)
        return self._rates[serial]

    def _update(self, block: Block, parameter: Parameter, gradient: Variable, rate: str) -> None:
        by_row = gradient.kind == ROWS
        kept = {one.slot: self._accumulator(block, parameter, one, by_row) for one in self.accumulators()}
        block.append_op(
            self.type,
            {"Param": parameter, "Grad": gradient, "LearningRate": rate, **kept},
            {"ParamOut": parameter, **{f"{slot}Out": name for slot, name in kept.items()}},
            {**self.attrs(parameter), **_penalty(parameter.regularizer or self.regularization)},
        )

    def _accumulator(self, block: Block, parameter: Parameter, one: Accumulator, by_row: bool) -> str:
        stem = "_".join(part for part in (parameter.name, self.name, one.word) if part)
        # Another optimizer may have one for the same parameter, in this program or in one that shares its scope.
        name = names.generate(stem, block.has_var)
        if one.is_count:
            _persistable(block, name, parameter.shape[:1] if by_row else (1,), "float32", one.start)
        else:
            _persistable(block, name, parameter.shape, parameter.dtype, one.start)
        return name


def _says_what_was_meant(init: Callable[..., None]) -> Callable[..., None]:
    """The same `__init__`; UsageTypeError of one line for an argument that it does not have.

    One that takes any name knows what it takes, and stays as it is.
    """
    arguments = list(signature(init).parameters.values())[1:]
    if any(one.kind is Argument.VAR_KEYWORD for one in arguments):
        return init
    known = [one.name for one in arguments if one.kind in (Argument.POSITIONAL_OR_KEYWORD, Argument.KEYWORD_ONLY)]

    @wraps(init)
    def checked(self: Optimizer, *args: Any, **named: Any) -> None:
        for name in named:
            if name not in known:
                near = ["learning_rate"] if name == "lr" else get_close_matches(name, known, 1)
                advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
                raise UsageTypeError(f"{self.__class__.__name__} has no argument {name!r}; {advice}")
        init(self, *args, **named)

    return checked


def _persistable(block: Block, name: str, shape: Sequence[int], dtype: str, start: float) -> None:
    """A variable that keeps its value between runs, with its first one in the startup program."""
    block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
    startup = default_startup_program().global_block()
    Constant(start)(startup.create_var(name, shape, dtype, persistable=True), startup)


def _scaled(block: Block, rate: str, factor: float) -> str:
    """The learning rate of parameters that have a factor of their own."""
    name = f"{rate}@SCALE@{factor:g}"
    block.create_var(name, (1,), "float32", stop_gradient=True)
    block.append_op("scale", {"X": rate}, {"Out": name}, {"scale": factor})
    return name


def _penalty(penalty: Penalty | None) -> dict[str, Any]:
    if penalty is None:
        return {}
    return {"regularization_method": f"{penalty.kind}_decay", "regularization_coeff": penalty.coeff}
