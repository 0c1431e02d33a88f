"""`ParamAttr` with the arguments that only scripts of PaddlePaddle give."""

from __future__ import annotations

from copy import copy
from typing import Any

from fleet.errors import UsageTypeError
from fleet_programs.backward.clip import GradientClip, set_gradient_clip
from fleet_programs.parameters.attr import ParamAttr as Attr
from fleet_programs.parameters.initializer import Initializer
from fleet_programs.program.notes import leave_out_of_average
from fleet_programs.program.variable import Parameter, Penalty


class ParamAttr(Attr):
    """Settings of one parameter.

    `do_model_average` says whether a `ModelAverage` averages it; `gradient_clip` of 1.5 to 1.7 is a clip of its own, as
    `set_gradient_clip` gives one, for parameters of programs.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Penalty | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
        *,
        gradient_clip: GradientClip | None = None,
    ) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, need_clip)
        self.do_model_average = do_model_average
        if gradient_clip is not None and not isinstance(gradient_clip, GradientClip):
            raise UsageTypeError(f"ParamAttr: gradient_clip must be a GradientClipBy..., got {gradient_clip!r}")
        self.gradient_clip = gradient_clip

    def taken(self, parameter: Parameter) -> None:
        program = parameter.block.program
        if not self.do_model_average:
            leave_out_of_average(program.notes, parameter.name)
        if self.gradient_clip is not None:
            set_gradient_clip(self.gradient_clip, [parameter], program)

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """What layers make of what they are given: a ParamAttr, a list of them, or False for no parameter."""
        if isinstance(arg, list | tuple):
            return [ParamAttr._to_attr(one) for one in arg]
        made = Attr.of(arg)
        return False if made is None else made


def with_suffix(given: Any, suffix: str) -> Any:
    """The attribute of one of several parameters that share what was given for them: a name becomes NAME + suffix."""
    attr = Attr.of(given)
    if attr is None or attr.name is None:
        return attr
    own = copy(attr)
    own.name = attr.name + suffix
    return own
