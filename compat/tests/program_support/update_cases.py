"""Every optimizer of programs, and programs that are nothing but its update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import fleet.optim
from fleet_programs import optimizer as of
from fleet_programs.layers.io import fed
from program_support.programs import Built, building

Floats = NDArray[np.float32]
HEIGHT, WIDTH, STEPS, LR = 7, 3, 5, 0.05


class Case(NamedTuple):
    """An optimizer, the one of torch or Fleet with its formula, and the rule of servers."""

    make: Callable[..., of.Optimizer]
    like: Callable[..., torch.optim.Optimizer] | None
    rule: str
    args: dict[str, float] = {}  # noqa: RUF012


def _betas(make: Callable[..., torch.optim.Optimizer], **more: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda params, lr: make(params, lr=lr, betas=(0.8, 0.95), **more)


BETAS = {"beta1": 0.8, "beta2": 0.95}
CASES = {
    "sgd": Case(of.SGD, torch.optim.SGD, "sgd"),
    "momentum": Case(
        lambda lr, **more: of.Momentum(lr, 0.9, **more),
        lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9),
        "momentum",
        {"momentum": 0.9},
    ),
    "nesterov": Case(
        lambda lr, **more: of.Momentum(lr, 0.5, use_nesterov=True, **more),
        lambda params, lr: torch.optim.SGD(params, lr, momentum=0.5, nesterov=True),
        "momentum",
        {"momentum": 0.5, "nesterov": 1},
    ),
    "adagrad": Case(
        lambda lr, **more: of.Adagrad(lr, 1e-4, 0.2, **more),
        lambda params, lr: torch.optim.Adagrad(params, lr, eps=1e-4, initial_accumulator_value=0.2),
        "adagrad",
        {"eps": 1e-4, "initial_accumulator_value": 0.2},
    ),
    "adam": Case(of.Adam, torch.optim.Adam, "adam"),
    "adam betas": Case(
        lambda lr, **more: of.Adam(lr, 0.8, 0.95, 1e-3, **more),
        _betas(torch.optim.Adam, eps=1e-3),
        "adam",
        {**BETAS, "eps": 1e-3},
    ),
    "adamw": Case(
        lambda lr, **more: of.AdamW(lr, weight_decay=0.3, **more),
        lambda params, lr: torch.optim.AdamW(params, lr, weight_decay=0.3),
        "adamw",
        {"weight_decay": 0.3},
    ),
    "adamax": Case(lambda lr, **more: of.Adamax(lr, 0.8, 0.95, **more), _betas(torch.optim.Adamax), "adamax", BETAS),
    "rmsprop": Case(
        of.RMSProp,
        lambda params, lr: torch.optim.RMSprop(params, lr, alpha=0.95, eps=1e-6),
        "rmsprop",
        {"alpha": 0.95, "eps": 1e-6},
    ),
    "rmsprop momentum": Case(
        lambda lr, **more: of.RMSProp(lr, 0.5, 1e-3, 0.9, **more),
        lambda params, lr: torch.optim.RMSprop(params, lr, alpha=0.5, eps=1e-3, momentum=0.9),
        "rmsprop",
        {"alpha": 0.5, "eps": 1e-3, "momentum": 0.9},
    ),
    "rmsprop centered": Case(
        lambda lr, **more: of.RMSProp(lr, 0.5, 1e-3, 0.9, True, **more),
        lambda params, lr: torch.optim.RMSprop(params, lr, alpha=0.5, eps=1e-3, momentum=0.9, centered=True),
        "rmsprop",
        {"alpha": 0.5, "eps": 1e-3, "momentum": 0.9, "centered": 1},
    ),
    "ftrl": Case(
        lambda lr, **more: of.Ftrl(lr, 0.1, 0.2, **more),
        None,
        "ftrl",
        {"l1": 0.1, "l2": 0.2, "initial_accumulator_value": 0},
    ),
    "ftrl power": Case(
        lambda lr, **more: of.Ftrl(lr, 0.01, 0.0, -0.3, **more),
        None,
        "ftrl",
        {"l1": 0.01, "lr_power": -0.3, "initial_accumulator_value": 0},
    ),
    "decayed_adagrad": Case(
        lambda lr, **more: of.DecayedAdagrad(lr, 0.9, 1e-3, **more),
        lambda params, lr: torch.optim.RMSprop(params, lr, alpha=0.9, eps=1e-3),
        "decayed_adagrad",
        {"decay": 0.9, "eps": 1e-3},
    ),
    "lars": Case(
        lambda lr, **more: of.LarsMomentum(lr, 0.9, 0.5, 0.1, epsilon=0.01, **more),
        lambda params, lr: fleet.optim.Lars(params, lr, coeff=0.5, weight_decay=0.1, epsilon=0.01),
        "lars",
        {"momentum": 0.9, "coeff": 0.5, "weight_decay": 0.1, "eps": 0.01},
    ),
    "lamb": Case(
        lambda lr, **more: of.Lamb(lr, 0.1, 0.8, 0.95, **more),
        _betas(fleet.optim.Lamb, weight_decay=0.1),
        "lamb",
        {**BETAS, "weight_decay": 0.1},
    ),
}


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dense_program(optimizer: of.Optimizer, dtype: str = "float32", place: object = None) -> Built:
    """One parameter `w` whose gradient `g` is fed."""
    with building(place) as built:
        w = built.main.global_block().create_parameter("w", (HEIGHT, WIDTH), dtype)
        optimizer.apply_gradients([(w, fed("g", (HEIGHT, WIDTH), dtype))])
    return built


def sparse_program(optimizer: of.Optimizer, place: object = None, height: int = HEIGHT) -> Built:
    """The same with rows of a gradient, `values` at `ids`."""
    with building(place) as built:
        block = built.main.global_block()
        w = block.create_parameter("w", (height, WIDTH))
        given = {"Ids": fed("ids", (-1,), "int64"), "Out@GRAD": fed("values", (-1, WIDTH))}
        block.append_op("lookup_table_v2_grad", given, {"W@GRAD": "w@GRAD"}, {"is_sparse": True})
        optimizer.apply_gradients([(w, block.var("w@GRAD"))])
    return built


_MANY_SHAPES = {"a": (3, 2), "b": (5,), "c": (2, 1, 4)}
NUM_MANY = len(_MANY_SHAPES)
MANY: dict[str, Callable[..., of.Optimizer]] = {
    "sgd": of.SGD,
    "momentum": lambda lr, **more: of.Momentum(lr, 0.9, **more),
    "nesterov": lambda lr, **more: of.Momentum(lr, 0.9, use_nesterov=True, **more),
    "adam": of.Adam,
    "adamw": of.AdamW,
}
"""Optimizers that update many parameters in one call."""


def many_updates(*made: of.Optimizer, dtype: str = "float32", place: object = None) -> Built:
    """Parameters `a0`, `b0`, ... whose gradients `a0_g`, ... are fed, under each of some optimizers."""
    with building(place) as built:
        block = built.main.global_block()
        for number, optimizer in enumerate(made):
            pairs = [
                (block.create_parameter(f"{name}{number}", shape, dtype), fed(f"{name}{number}_g", shape, dtype))
                for name, shape in _MANY_SHAPES.items()
            ]
            optimizer.apply_gradients(pairs)
    return built


def many_values(built: Built, suffix: str = "", seed: int = 0) -> dict[str, Any]:
    """Random values for the parameters, or with the suffix `_g` for their gradients."""
    generator = np.random.default_rng(seed)
    parameters = built.main.global_block().parameters
    return {f"{one.name}{suffix}": generator.normal(size=one.shape).astype(one.dtype) for one in parameters}
