"""Optimizers for tensors and for programs, with one signature each.

Given `parameters` that are tensors it is one of `imperative.optimizer`; without, or with those of a program, of
`fleet.static.optimizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.static import optimizer as of_programs
from fleet.static.regularizer import L2Decay
from fleet.static.spelling import Spelling
from fleet.static.variable import Parameter, Penalty
from fleet_paddle import mode
from fleet_paddle.imperative import optimizer as of_tensors
from fleet_paddle.rates import follow

Decay = float | Penalty | None


def _either(kind: str) -> Callable[..., Any]:
    """A function with the signature of the optimizer of tensors, which makes that or the one of programs."""
    of_its_kind = getattr(of_tensors, kind)
    spelled = Spelling.parse(f"{kind}({of_its_kind.takes})")
    return spelled.function(f"return make({kind!r}, locals())", {"make": _make}, of_its_kind.__doc__, __name__)


def _make(kind: str, given: dict[str, Any]) -> Any:
    parameters = given["parameters"] = None if given["parameters"] is None else list(given["parameters"])
    if not _means_programs(kind, parameters):
        return getattr(of_tensors, kind)(**given)
    rate = given["learning_rate"]
    is_scheduled = isinstance(rate, of_tensors.lr.LRScheduler)
    made = getattr(of_programs, kind)(**_for_programs(kind, given), learning_rate=rate() if is_scheduled else rate)
    if is_scheduled:
        follow(rate, made)
    return made


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
    if kind == "AdamW":
        if found.pop("lazy_mode"):
            raise NotSupportedError("AdamW: lazy_mode is not built for programs; use Adam, or leave it out")
        if found.pop("apply_decay_param_fun") is not None:
            raise NotSupportedError(
                "AdamW: apply_decay_param_fun is not built for programs; use Adam with ParamAttr(regularizer=...)"
            )
    elif "weight_decay" in found:
        found["regularization"] = _penalty(kind, found.pop("weight_decay"))
    return found


def _penalty(kind: str, decay: Decay) -> Penalty | None:
    if decay is None or isinstance(decay, Penalty):
        return decay
    if isinstance(decay, bool) or not isinstance(decay, int | float):
        raise UsageTypeError(f"{kind}: weight_decay must be a number, L1Decay or L2Decay, got {decay!r}")
    return L2Decay(decay)


SGD = _either("SGD")
Momentum = _either("Momentum")
Adagrad = _either("Adagrad")
Adam = _either("Adam")
AdamW = _either("AdamW")
Adamax = _either("Adamax")
RMSProp = _either("RMSProp")
Lamb = _either("Lamb")

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "RMSProp"]
