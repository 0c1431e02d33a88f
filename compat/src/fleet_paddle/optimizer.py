"""Optimizers for tensors and for programs, with one signature each.

Given `parameters` that are tensors it is one of `imperative.optimizer`; without, or with those of a program, of
`fleet_programs.optimizer`.
"""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.imperative import optimizer as of_tensors
from fleet_paddle.imperative.optimizer import later
from fleet_paddle.programs.optimizers.adadelta import Adadelta as _Adadelta
from fleet_paddle.rates import follow
from fleet_programs import optimizer as of_programs
from fleet_programs.expressions.spelling import Spelling
from fleet_programs.parameters.regularizer import L2Decay
from fleet_programs.program.variable import Parameter, Penalty

Decay = float | Penalty | None


class Either:
    """One optimizer of tensors and of programs: called, it makes that which is meant.

    `isinstance` knows both; a class that a script derives from it is one of tensors.
    """

    def __init__(self, kind: str) -> None:
        self._of_tensors = getattr(of_tensors, kind)
        self._of_programs = _class_of(kind)
        self.__name__, self.__doc__, self.__module__ = kind, self._of_tensors.__doc__, __name__
        spelled = Spelling.parse(f"{kind}({self._of_tensors.takes})")
        self.__wrapped__ = spelled.function(f"return make({kind!r}, locals())", {"make": _make}, self.__doc__, __name__)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.__wrapped__(*args, **named)

    def __instancecheck__(self, given: Any) -> bool:
        return isinstance(given, self._of_tensors | self._of_programs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        del bases
        return (self._of_tensors,)

    def __repr__(self) -> str:
        return f"<optimizer {self.__name__} of tensors or programs>"


def _make(kind: str, given: dict[str, Any]) -> Any:
    parameters = given["parameters"] = None if given["parameters"] is None else list(given["parameters"])
    if not _means_programs(kind, parameters):
        return getattr(of_tensors, kind)(**given)
    rate = given["learning_rate"]
    is_scheduled = isinstance(rate, of_tensors.lr.LRScheduler)
    made = _class_of(kind)(**_for_programs(kind, given), learning_rate=rate() if is_scheduled else rate)
    if is_scheduled:
        follow(rate, made)
    return made


def _class_of(kind: str) -> Any:
    """The optimizer of programs: Fleet's, or Adadelta, which Fleet does not have."""
    return _Adadelta if kind == "Adadelta" else getattr(of_programs, kind)


def _means_programs(kind: str, parameters: list[Any] | None) -> bool:
    if parameters is None:
        if mode.is_dynamic():
            raise UsageError(
                f"{kind}: parameters must be given after disable_static(): parameters=layer.parameters(); for a "
                "program call enable_static() first"
            )
        return True
    return bool(parameters) and isinstance(parameters[0], Parameter | str)


def _for_programs(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The same arguments under the names that optimizers of programs have."""
    found = {name: value for name, value in given.items() if name != "learning_rate"}
    found["parameter_list"] = found.pop("parameters")
    later.settle(kind, found, [])
    if kind == "AdamW":
        if found.pop("lazy_mode"):
            raise NotSupportedError("AdamW: lazy_mode is not built for programs; use Adam, or leave it out")
    elif "weight_decay" in found:
        found["regularization"] = _penalty(kind, found.pop("weight_decay"))
    return found


def _penalty(kind: str, decay: Decay) -> Penalty | None:
    if decay is None or isinstance(decay, Penalty):
        return decay
    if isinstance(decay, bool) or not isinstance(decay, int | float):
        raise UsageTypeError(f"{kind}: weight_decay must be a number, L1Decay or L2Decay, got {decay!r}")
    return L2Decay(decay)


SGD: Any = Either("SGD")
Momentum: Any = Either("Momentum")
Adadelta: Any = Either("Adadelta")
Adagrad: Any = Either("Adagrad")
Adam: Any = Either("Adam")
AdamW: Any = Either("AdamW")
Adamax: Any = Either("Adamax")
RMSProp: Any = Either("RMSProp")
Lamb: Any = Either("Lamb")

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "RMSProp"]
