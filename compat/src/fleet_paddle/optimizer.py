"""Optimizers for tensors and for programs, with one signature each.

Given `parameters` that are tensors it is one of `imperative.optimizer`; without, or with those of a program, of
`fleet.static.optimizer`.
"""
# ruff: noqa: N802  (named like the classes that they make; arguments are passed on by name)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.static import optimizer as of_programs
from fleet.static.regularizer import L2Decay
from fleet.static.variable import Parameter, Penalty
from fleet_paddle import mode
from fleet_paddle.imperative import optimizer as of_tensors
from fleet_paddle.rates import follow

Parameters = Iterable[Any] | None
Decay = float | Penalty | None


def SGD(
    learning_rate: Any = 0.001,
    parameters: Parameters = None,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
) -> Any:
    """w = w - lr * g"""
    return _make("SGD", locals())


def Momentum(
    learning_rate: Any = 0.001,
    momentum: float = 0.9,
    parameters: Parameters = None,
    use_nesterov: bool = False,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
) -> Any:
    """v = momentum * v + g, w = w - lr * v"""
    return _make("Momentum", locals())


def Adagrad(
    learning_rate: Any,
    epsilon: float = 1e-6,
    parameters: Parameters = None,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
    initial_accumulator_value: float = 0.0,
) -> Any:
    """s = s + g^2, w = w - lr * g / (sqrt(s) + epsilon)"""
    return _make("Adagrad", locals())


def Adam(
    learning_rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    parameters: Parameters = None,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
    lazy_mode: bool = False,
) -> Any:
    """torch's Adam."""
    return _make("Adam", locals())


def AdamW(
    learning_rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    parameters: Parameters = None,
    weight_decay: float = 0.01,
    apply_decay_param_fun: Callable[[str], bool] | None = None,
    grad_clip: Any = None,
    name: str | None = None,
    lazy_mode: bool = False,
) -> Any:
    """torch's AdamW."""
    return _make("AdamW", locals())


def Adamax(
    learning_rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    parameters: Parameters = None,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
) -> Any:
    """torch's Adamax."""
    return _make("Adamax", locals())


def RMSProp(
    learning_rate: Any,
    rho: float = 0.95,
    epsilon: float = 1e-6,
    momentum: float = 0.0,
    centered: bool = False,
    parameters: Parameters = None,
    weight_decay: Decay = None,
    grad_clip: Any = None,
    name: str | None = None,
) -> Any:
    """torch's RMSprop, whose alpha is `rho`."""
    return _make("RMSProp", locals())


def Lamb(
    learning_rate: Any = 0.001,
    lamb_weight_decay: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    parameters: Parameters = None,
    grad_clip: Any = None,
    exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
    name: str | None = None,
) -> Any:
    """Adam whose step follows the norms of weights and direction."""
    return _make("Lamb", locals())


__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "RMSProp"]


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
