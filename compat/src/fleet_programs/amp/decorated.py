"""The optimizer of mixed precision: around the user's, whose rule it leaves alone.

A loss in float16 is multiplied by a factor, so that small gradients do not vanish. After backward the gradients are
divided by it and looked at (`check_finite_and_unscale`). If the factor is dynamic, all become 0 where one of them is
NaN or Inf, and the factor follows: it shrinks after some such steps and grows after many good ones
(`update_loss_scaling`). A fixed factor leaves them as they are, as in PaddlePaddle. bfloat16 needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.amp.casting import SINGLE, cast_forward
from fleet_programs.amp.lists import AutoMixedPrecisionLists
from fleet_programs.backward.backward import ParamsGrads
from fleet_programs.definition.operator import BACKWARD, FORWARD, Operator
from fleet_programs.expressions import names
from fleet_programs.optimizer.base import Optimizer
from fleet_programs.parameters.initializer import Constant
from fleet_programs.parameters.settings import number, switch, whole
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program, default_startup_program, program_guard
from fleet_programs.program.variable import Parameter, Variable


@dataclass(frozen=True)
class LossScaling:
    """The factor of the loss, and how it follows."""

    init: float = 32768.0
    incr_every_n_steps: int = 1000
    decr_every_n_nan_or_inf: int = 2
    incr_ratio: float = 2.0
    decr_ratio: float = 0.8
    is_dynamic: bool = True


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 32768.0,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    dtype: str = "float16",
) -> MixedPrecision:
    """An optimizer that trains in mixed precision; `dtype` is float16 or bfloat16."""
    scaling = LossScaling(
        number("decorate", "init_loss_scaling", init_loss_scaling, above=0),
        whole("decorate", "incr_every_n_steps", incr_every_n_steps, least=1),
        whole("decorate", "decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, least=1),
        number("decorate", "incr_ratio", incr_ratio, above=1),
        number("decorate", "decr_ratio", decr_ratio, above=0, below=1),
        switch("decorate", "use_dynamic_loss_scaling", use_dynamic_loss_scaling),
    )
    return MixedPrecision(optimizer, amp_lists or AutoMixedPrecisionLists(), scaling, dtype)


class MixedPrecision(Optimizer):
    """An optimizer whose `minimize` casts the program first and looks at gradients before they are used."""

    type = "mixed_precision"

    def __init__(
        self, inner: Optimizer, lists: AutoMixedPrecisionLists, scaling: LossScaling, dtype: str = "float16"
    ) -> None:
        if isinstance(inner, MixedPrecision) or not hasattr(inner, "apply_gradients"):
            raise UsageTypeError(f"decorate: optimizer must be one of static.optimizer, got {inner!r}")
        if dtype not in ("float16", "bfloat16"):
            raise UsageError(f"decorate: dtype must be float16 or bfloat16, got {dtype!r}")
        self.inner, self.lists, self.scaling, self.dtype = inner, lists, scaling, dtype
        self._factor = ""
        self._counts = ("", "")

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def get_loss_scaling(self) -> str:
        """The name of the variable that the loss is multiplied by, to be fetched."""
        if not self._factor:
            raise NotReadyError("get_loss_scaling: there is no factor; call minimize() with float16 first")
        return self._factor

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> ParamsGrads:
        """Add casts to the forward pass, then the gradients of the scaled loss."""
        block = loss.block
        cast_forward(block, self.lists, self.dtype)
        with program_guard(block.program, startup_program):
            target = self._scaled(_single(loss, block), block)
        return self.inner.backward(target, startup_program, parameter_list, no_grad_set, callbacks)

    def _scaled(self, loss: Variable, block: Block) -> Variable:
        if self.dtype != "float16":
            return loss
        self._factor = _kept(block, "loss_scaling", SINGLE, self.scaling.init)
        if self.scaling.is_dynamic:
            self._counts = (_kept(block, "num_good_steps", "int32", 0), _kept(block, "num_bad_steps", "int32", 0))
        made = block.create_var(names.generate("scaled_loss", block.has_var), loss.shape, SINGLE)
        block.append_op("elementwise_mul", {"X": loss.name, "Y": self._factor}, {"Out": made}, {}, role=FORWARD)
        return made

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Look at the gradients and divide them by the factor, then add the updates."""
        pairs = list(params_grads)
        if pairs and self._factor:
            self._look(pairs[0][0].block, [gradient.name for _, gradient in pairs])
        return self.inner.apply_gradients(pairs)

    def _look(self, block: Block, gradients: list[str]) -> None:
        found = block.create_var(names.generate("find_infinite", block.has_var), (1,), "bool", stop_gradient=True)
        with block.program.adding(BACKWARD):
            block.append_op(
                "check_finite_and_unscale",
                {"X": gradients, "Scale": self._factor},
                {"Out": gradients, "FoundInfinite": found},
            )
            if not self.scaling.is_dynamic:
                return
            good, bad = self._counts
            block.append_op(
                "update_loss_scaling",
                {
                    "X": gradients,
                    "FoundInfinite": found,
                    "PrevLossScaling": self._factor,
                    "InGoodSteps": good,
                    "InBadSteps": bad,
                },
                {"Out": gradients, "LossScaling": self._factor, "OutGoodSteps": good, "OutBadSteps": bad},
                {
                    "incr_every_n_steps": self.scaling.incr_every_n_steps,
                    "decr_every_n_nan_or_inf": self.scaling.decr_every_n_nan_or_inf,
                    "incr_ratio": self.scaling.incr_ratio,
                    "decr_ratio": self.scaling.decr_ratio,
                },
            )


def _single(loss: Variable, block: Block) -> Variable:
    """The loss in single precision, in which it is scaled."""
    if loss.dtype == SINGLE:
        return loss
    made = block.create_var(f"{loss.name}.cast_fp32", loss.shape, SINGLE)
    attrs = {"in_dtype": loss.dtype, "out_dtype": SINGLE}
    block.append_op("cast", {"X": loss}, {"Out": made}, attrs, role=FORWARD)
    return made


def _kept(block: Block, stem: str, dtype: str, start: float) -> str:
    """A variable of one number that keeps its value between runs."""
    name = names.generate(stem, block.has_var)
    block.create_var(name, (1,), dtype, persistable=True, stop_gradient=True)
    startup = default_startup_program().global_block()
    Constant(start)(startup.create_var(name, (1,), dtype, persistable=True), startup)
    return name
