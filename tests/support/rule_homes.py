"""Places that have rules, each as a function that trains rows or a dense group, and the formula of the table alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import _native
from fleet.ps.held.dense import dense_group
from fleet.ps.held.dense_cuda import DeviceGroup
from fleet.ps.job.rule_formulas import Args
from fleet.ps.job.rule_table import RULES, KeptPart, TensorRule
from support.worker.dense_rules import Floats

STEPS = 60


class Training(NamedTuple):
    """First values [N, D], and of each step which of the rows, their gradients and the rate."""

    start: Floats
    steps: list[tuple[NDArray[np.int64], Floats, float]]


class Trained(NamedTuple):
    """Values [N, D] and state [N, W]."""

    values: NDArray[Any]
    state: NDArray[Any]


Home = Callable[[str, Args, Training], Trained]


def training(num_rows: int, width: int) -> Training:
    """Of sizes from 1e-4 to 10, with zeros; rows differ in how often they come. The first rate is 0."""
    rng = np.random.default_rng(1)
    keys = np.arange(num_rows)
    start = _native.initialize("uniform", {"low": -1, "high": 1}, 0, "ads", keys, width)
    steps = []
    for step in range(STEPS):
        chosen = np.sort(rng.permutation(num_rows)[: max(1, num_rows * 2 // 3)])
        grads = rng.normal(size=(len(chosen), width)) * np.logspace(-4, 1, width)
        grads[rng.random(grads.shape) < 0.05] = 0
        steps.append((chosen, grads.astype(np.float32), 0.02 * (0.5 + step / STEPS) if step else 0.0))
    return Training(start, steps)


def kept(parts: tuple[KeptPart, ...], constants: Args) -> list[float]:
    """First values of what is kept, as the table has it."""
    return [
        constants[part.first] if part.first else 0.0
        for part in parts
        if not part.goes_with or constants[part.goes_with]
    ]


def by_formula(rule: str, args: Args, given: Training, dtype: torch.dtype = torch.float32) -> Trained:
    """By the table alone: its constants, its state, its formula."""
    constants, own = {**RULES[rule].constants, **args}, TensorRule(rule, args)
    values = torch.from_numpy(given.start.copy()).to(dtype)
    num_rows, width = values.shape
    arrays = [torch.full((num_rows, width), first, dtype=dtype) for first in kept(RULES[rule].arrays, constants)]
    scalars = [torch.full((num_rows, 1), first, dtype=dtype) for first in kept(RULES[rule].scalars, constants)]
    for rows, grads, lr in given.steps:
        chosen = torch.from_numpy(rows)
        parts = [one[chosen] for one in (values, *arrays, *scalars)]
        own.apply(
            parts[0],
            parts[1 : len(arrays) + 1],
            parts[-1] if scalars else None,
            torch.from_numpy(grads).to(dtype),
            lr,
            axis=1,
        )
        for one, part in zip((values, *arrays, *scalars), parts, strict=True):
            one[chosen] = part
    return Trained(values.numpy(), torch.cat([*arrays, *scalars, values[:, :0]], dim=1).numpy())


def by_table(rule: str, args: Args, given: Training) -> Trained:
    num_rows, width = given.start.shape
    table = _native.Table("ads", width, rule, args, "uniform", {"low": -1, "high": 1}, "always", {})
    for step, (keys, grads, lr) in enumerate(given.steps):
        table.push(keys, grads, step=step, lr=lr)
    found = table.export(0, table.num_shards)
    order = found["keys"].argsort()
    assert len(order) == num_rows
    return Trained(found["values"][order], found["state"][order])


def by_cached_rows(device: str) -> Home:
    def home(rule: str, args: Args, given: Training) -> Trained:
        own, native = TensorRule(rule, args), _native.Rule(rule, args)
        values = torch.from_numpy(given.start.copy()).to(device)
        state = torch.from_numpy(native.start(values.shape[1])).repeat(len(values), 1).to(device)
        for rows, grads, lr in given.steps:
            chosen = torch.from_numpy(rows).to(device)
            some, some_state = values[chosen], state[chosen]
            own.apply_to_rows(some, some_state, torch.from_numpy(grads).to(device), lr)
            values[chosen], state[chosen] = some, some_state
        return Trained(values.cpu().numpy(), state.cpu().numpy())

    return home


def by_group(device: str) -> Home:
    """As one dense group; `given` has one row."""

    def home(rule: str, args: Args, given: Training) -> Trained:
        size = given.start.size
        group = dense_group(rule, args, [size], "cpu") if device == "host" else DeviceGroup(rule, args, [size], device)
        group.start(given.start.ravel())
        for _, grads, lr in given.steps:
            group.apply(grads.ravel(), lr)
        return Trained(group.read().reshape(1, size), group.state().reshape(1, -1))

    return home


def assert_same(rule: str, found: Trained, wanted: Trained, bound: float) -> None:
    """The same bits, or so far away as the bound says."""
    assert np.isfinite(found.values).all()
    assert found.state.shape == wanted.state.shape
    for name, mine, theirs in zip(Trained._fields, found, wanted, strict=True):
        if not bound:
            assert np.array_equal(mine.view(np.int32), theirs.view(np.int32)), f"{name} of {rule}"
        else:
            np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * np.abs(theirs).max(initial=0))
