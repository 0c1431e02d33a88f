"""Each rule of the core on a flat buffer, against the optimizer of torch or Fleet whose formula it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from fleet import _native
from fleet.optim import Lamb, Lars

STEPS = 200
SIZE = 301

Floats = npt.NDArray[np.float32]

COMMON: list[dict[str, float]] = [{}, {"weight_decay": 0.1}, {"maximize": 1}, {"weight_decay": 0.05, "maximize": 1}]


@cache
def gradients() -> Floats:
    """For each step; of sizes from 1e-4 to 10 across the buffer, with some zeros."""
    rng = np.random.default_rng(1)
    grads = rng.normal(size=(STEPS, SIZE)) * np.logspace(-4, 1, SIZE) + rng.normal(size=SIZE) * 0.1
    grads[rng.random(grads.shape) < 0.05] = 0
    return grads.astype(np.float32)


def rates(lr: float) -> list[float]:
    """As a schedule would have them: the rate of a push overrides the rule's own."""
    return [lr * (0.5 + step / STEPS) for step in range(STEPS)]


def ours(name: str, args: dict[str, float], start: Floats, lr: float) -> Floats:
    rule = _native.Rule(name, args)
    values, state = start.copy(), rule.start(SIZE)
    for grads, rate in zip(gradients(), rates(lr), strict=True):
        rule.apply(values, state, grads, rate)
    return values


def theirs(
    make: Callable[..., torch.optim.Optimizer], args: dict[str, Any], start: Floats, lr: float, sign: int = 1
) -> Floats:
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = make([parameter], lr=lr, **args)
    for grads, rate in zip(gradients(), rates(lr), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.from_numpy(sign * grads)
        optimizer.step()
    return parameter.detach().numpy()


def of_torch(args: dict[str, float]) -> dict[str, Any]:
    """The same arguments as torch wants them: booleans, and the betas as a pair."""
    flags = {"maximize", "nesterov", "amsgrad", "centered", "decoupled_weight_decay"}
    result: dict[str, Any] = {name: bool(value) if name in flags else value for name, value in args.items()}
    if "beta1" in result:
        result["betas"] = (result.pop("beta1"), result.pop("beta2"))
    return result


def check(name: str, make: Callable[..., torch.optim.Optimizer], args: dict[str, float], lr: float) -> None:
    start = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    expected = theirs(make, of_torch(args), start, lr)
    values = ours(name, {"lr": 123.0, **args}, start, lr)
    assert np.isfinite(expected).all()
    assert not np.allclose(expected, start)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def with_common(variants: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{**variant, **common} for variant in variants for common in COMMON]


@pytest.mark.parametrize("args", COMMON, ids=str)
def test_sgd(args: dict[str, float]) -> None:
    check("sgd", torch.optim.SGD, args, 0.01)


@pytest.mark.parametrize(
    "args",
    with_common(
        [
            {"momentum": 0.9},
            {"momentum": 0.9, "nesterov": 1},
            {"momentum": 0.5, "dampening": 0.3},
            {"momentum": 0.5, "dampening": 1},
            {"momentum": 0},
        ]
    ),
    ids=str,
)
def test_momentum(args: dict[str, float]) -> None:
    check("momentum", torch.optim.SGD, args, 0.01)


@pytest.mark.parametrize(
    "args",
    with_common([{}, {"lr_decay": 0.01}, {"initial_accumulator_value": 0.1}, {"eps": 0.1, "lr_decay": 0.1}]),
    ids=str,
)
def test_adagrad(args: dict[str, float]) -> None:
    check("adagrad", torch.optim.Adagrad, args, 0.05)


ADAM: list[dict[str, float]] = [
    {},
    {"amsgrad": 1},
    {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3},
    {"beta1": 0.0, "beta2": 0.0, "eps": 0.1},
]


@pytest.mark.parametrize("args", with_common([*ADAM, {"decoupled_weight_decay": 1}]), ids=str)
def test_adam(args: dict[str, float]) -> None:
    check("adam", torch.optim.Adam, args, 0.01)


@pytest.mark.parametrize(
    "args",
    with_common([{}, {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3}, {"beta1": 0.0, "beta2": 0.0, "eps": 0.1}]),
    ids=str,
)
def test_adamax(args: dict[str, float]) -> None:
    check("adamax", torch.optim.Adamax, args, 0.01)


@pytest.mark.parametrize("args", with_common(ADAM), ids=str)
def test_adamw(args: dict[str, float]) -> None:
    check("adamw", torch.optim.AdamW, args, 0.01)


@pytest.mark.parametrize(
    "args",
    with_common(
        [
            {},
            {"alpha": 0.9, "eps": 1e-3},
            {"momentum": 0.9},
            {"centered": 1, "eps": 1e-3},
            {"centered": 1, "momentum": 0.5, "eps": 1e-3},
        ]
    ),
    ids=str,
)
def test_rmsprop(args: dict[str, float]) -> None:
    check("rmsprop", torch.optim.RMSprop, args, 0.01)


@pytest.mark.parametrize("maximize", [0, 1])
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"momentum": 0.5, "coeff": 0.02, "weight_decay": 0.1},
        {"momentum": 0, "weight_decay": 0, "epsilon": 0.5},
        {"nesterov": 1},
    ],
    ids=str,
)
def test_lars(args: dict[str, float], maximize: int) -> None:
    start = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    expected = theirs(Lars, of_torch(args), start, 2.0, sign=-1 if maximize else 1)
    same = {"eps" if name == "epsilon" else name: value for name, value in args.items()}
    values = ours("lars", {"lr": 123.0, "maximize": maximize, **same}, start, 2.0)
    assert not np.allclose(expected, start)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("maximize", [0, 1])
@pytest.mark.parametrize(
    "args",
    [{}, {"weight_decay": 0}, {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1}],
    ids=str,
)
def test_lamb(args: dict[str, float], maximize: int) -> None:
    start = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    expected = theirs(Lamb, of_torch(args), start, 0.01, sign=-1 if maximize else 1)
    values = ours("lamb", {"lr": 123.0, "maximize": maximize, **args}, start, 0.01)
    assert not np.allclose(expected, start)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rule", "zero"), [("lars", "weights"), ("lars", "grads"), ("lamb", "weights")])
def test_without_a_norm(rule: str, zero: str) -> None:
    """Where one is zero there is no ratio, and the rate is the given one."""
    start, grads = (np.full(5, 0 if zero == name else 2, np.float32) for name in ("weights", "grads"))
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    parameter.grad = torch.from_numpy(grads.copy())
    optimizer: torch.optim.Optimizer = Lars([parameter], 0.1) if rule == "lars" else Lamb([parameter], 0.1)
    optimizer.step()
    native = _native.Rule(rule, {"lr": 0.1})
    values = start.copy()
    native.apply(values, native.start(5), grads, 0.1)
    assert not np.array_equal(values, start)
    np.testing.assert_allclose(values, parameter.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("args", with_common([{}, {"decay": 0.5, "eps": 1e-3}]), ids=str)
def test_decayed_adagrad(args: dict[str, float]) -> None:
    """RMSprop by other names."""

    def make(parameters: Any, decay: float = 0.95, eps: float = 1e-6, **more: Any) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(parameters, alpha=decay, eps=eps, **more)

    check("decayed_adagrad", make, args, 0.01)


def ftrl_in_double(args: dict[str, float], start: Floats, lr: float) -> npt.NDArray[np.float64]:
    sign = -1 if args.get("maximize") else 1
    decay, l1, l2 = args.get("weight_decay", 0.0), args.get("l1", 0.0), args.get("l2", 0.0)
    power = -args.get("lr_power", -0.5)
    w, z = start.astype(np.float64), np.zeros(SIZE)
    n = np.full(SIZE, float(args.get("initial_accumulator_value", 0.1)))
    for grads, rate in zip(gradients(), rates(lr), strict=True):
        g = sign * grads.astype(np.float64) + decay * w
        z += g - ((n + g * g) ** power - n**power) / rate * w
        n += g * g
        shrunk = np.sign(z) * np.maximum(np.abs(z) - l1, 0)
        w = np.where(shrunk == 0, 0, -shrunk / (np.maximum(n, 1e-300) ** power / rate + 2 * l2))
    return w


@pytest.mark.parametrize(
    "args",
    with_common(
        [
            {},
            {"l1": 2},
            {"l1": 2, "l2": 0.5},
            {"initial_accumulator_value": 0},
            {"lr_power": -0.7, "l1": 2},
            {"lr_power": -1},
            {"lr_power": 0, "l2": 0.1},
        ]
    ),
    ids=str,
)
def test_ftrl(args: dict[str, float]) -> None:
    lr = 0.02
    start = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    expected = ftrl_in_double(args, start, lr)
    values = ours("ftrl", {"lr": 123.0, **args}, start, lr)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
    if args.get("l1", 0) > 0:
        assert np.any(values == 0)
