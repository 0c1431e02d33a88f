"""`ParamAttr` with the arguments that only scripts of PaddlePaddle give."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.attr import ParamAttr as Attr
from fleet.static.initializer import Initializer
from fleet.static.variable import Penalty


class ParamAttr(Attr):
    """Settings of one parameter.

    `do_model_average` says whether `ModelAverage` looks at it, which is not built: without it, it says nothing.
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
        gradient_clip: Any = None,
    ) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, need_clip)
        self.do_model_average = do_model_average
        if gradient_clip is not None:
            raise NotSupportedError(
                f"ParamAttr: gradient_clip ({type(gradient_clip).__name__}) of a single parameter is not built; use "
                "fluid.clip.set_gradient_clip(clip, param_list=[...]) before minimize, or the optimizer's grad_clip"
            )

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """What layers make of what they are given: a ParamAttr, a list of them, or False for no parameter."""
        if isinstance(arg, list | tuple):
            return [ParamAttr._to_attr(one) for one in arg]
        made = Attr.of(arg)
        return False if made is None else made
