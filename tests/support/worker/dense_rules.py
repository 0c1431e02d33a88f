"""Every rule with arguments that reach each of its branches, and a hundred steps of gradients to try it on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleet.ps.held.dense import DenseGroup

Floats = NDArray[np.float32]
SIZE, STEPS = 301, 100

VARIANTS: list[tuple[str, dict[str, float]]] = [
    ("sgd", {}),
    ("sgd", {"weight_decay": 0.1, "maximize": 1}),
    ("momentum", {"lr": 0.1, "momentum": 0.9}),
    ("momentum", {"lr": 0.1, "momentum": 0.9, "nesterov": 1, "weight_decay": 0.01}),
    ("momentum", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": 1}),
    ("adagrad", {}),
    ("adagrad", {"lr_decay": 0.01, "initial_accumulator_value": 0.1, "eps": 1e-6, "weight_decay": 0.1}),
    ("adam", {}),
    ("adam", {"amsgrad": 1, "weight_decay": 0.1, "maximize": 1}),
    ("adam", {"beta1": 0.0, "beta2": 0.5, "decoupled_weight_decay": 1, "weight_decay": 0.1}),
    ("adamax", {}),
    ("adamax", {"beta1": 0.0, "beta2": 0.5, "eps": 1e-3, "weight_decay": 0.1, "maximize": 1}),
    ("adamw", {}),
    ("adamw", {"amsgrad": 1, "beta1": 0.8, "weight_decay": 0.3}),
    ("decayed_adagrad", {}),
    ("decayed_adagrad", {"decay": 0.5, "eps": 1e-3, "weight_decay": 0.1, "maximize": 1}),
    ("lamb", {}),
    ("lamb", {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.0, "maximize": 1}),
    ("lars", {"lr": 1.0}),
    ("lars", {"lr": 1.0, "momentum": 0.5, "coeff": 0.1, "weight_decay": 0.1, "eps": 0.1, "nesterov": 1, "maximize": 1}),
    ("rmsprop", {}),
    ("rmsprop", {"centered": 1, "weight_decay": 0.1}),
    ("rmsprop", {"momentum": 0.9, "alpha": 0.5}),
    ("rmsprop", {"momentum": 0.9, "centered": 1, "maximize": 1}),
    ("ftrl", {}),
    ("ftrl", {"l1": 0.1, "l2": 0.2, "weight_decay": 0.01}),
    ("ftrl", {"l1": 0.01, "lr_power": -0.3}),
    ("ftrl", {"lr_power": -1.0, "initial_accumulator_value": 0}),
    ("ftrl", {"lr_power": 0.0}),
    ("sum", {}),
    ("average", {}),
]


def gradients() -> Floats:
    """For each step; of sizes from 1e-4 to 10 across the buffer, with some zeros."""
    rng = np.random.default_rng(1)
    grads = rng.normal(size=(STEPS, SIZE)) * np.logspace(-4, 1, SIZE) + rng.normal(size=SIZE) * 0.1
    grads[rng.random(grads.shape) < 0.05] = 0
    return grads.astype(np.float32)


def train(group: DenseGroup, first: int, last: int) -> None:
    for step, grads in enumerate(gradients()[first:last], first):
        grads.flags.writeable = False  # as those of a request are
        group.apply(grads, 0.02 * (0.5 + step / STEPS) if step else 0.0)


def values() -> Floats:
    return np.random.default_rng(0).normal(size=SIZE).astype(np.float32)


def assert_same(group: DenseGroup, other: DenseGroup) -> None:
    """Equal but for rounding, which is that of an array's largest elements: small ones are what is left of them."""
    for mine, theirs in zip(arrays(group), arrays(other), strict=True):
        assert np.isfinite(mine).all()
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max(initial=0))


def arrays(group: DenseGroup) -> list[Floats]:
    state = group.state()
    return [group.read(), *np.split(state, range(SIZE, len(state), SIZE))]
