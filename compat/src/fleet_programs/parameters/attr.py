"""`ParamAttr`: how a layer's parameter is named, initialised and trained."""

from __future__ import annotations

from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.parameters.initializer import Initializer
from fleet_programs.program.variable import Parameter, Penalty


class ParamAttr:
    """Settings of one parameter. `learning_rate` is a factor on the optimizer's rate."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Penalty | None = None,
        trainable: bool = True,
        need_clip: bool = True,
    ) -> None:
        if initializer is not None and not isinstance(initializer, Initializer):
            raise UsageTypeError(f"initializer must be one of static.initializer, got {type(initializer).__name__}")
        if regularizer is not None and not isinstance(regularizer, Penalty):
            raise UsageTypeError(f"regularizer must be L1Decay or L2Decay, got {type(regularizer).__name__}")
        if not learning_rate >= 0:
            raise UsageError(f"learning_rate of a parameter must be >= 0, got {learning_rate}")
        self.name = name
        self.initializer = initializer
        self.learning_rate = float(learning_rate)
        self.regularizer = regularizer
        self.trainable = trainable
        self.need_clip = need_clip

    def taken(self, parameter: Parameter) -> None:
        """A layer of a program has made this parameter, or shares it: for kinds of settings that have more to say."""

    @staticmethod
    def of(given: Any) -> ParamAttr | None:
        """What users give for a parameter: nothing, a name, an initialiser, a ParamAttr, or False for none at all."""
        if given is None or given is True:
            return ParamAttr()
        if given is False:
            return None
        if isinstance(given, str):
            return ParamAttr(name=given)
        if isinstance(given, Initializer):
            return ParamAttr(initializer=given)
        if isinstance(given, ParamAttr):
            return given
        raise UsageTypeError(
            f"param_attr must be a name, an initializer, a ParamAttr, or False for none, got {type(given).__name__}"
        )
