"""Every rule in every place that has it, against its row of `fleet.ps.rule_table`.

Update operators of programs have their part of it in tests/unit/static/test_updates.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fleet
from fleet import _native
from fleet.ps.corrections import LARGEST_TABLE, Corrections
from fleet.ps.dense import dense_group
from fleet.ps.dense_cuda import DeviceGroup
from fleet.ps.rule_table import RULES, Args, Part, TensorRule
from fleet.ps.spec import RuleSpec
from support.dense_rules import VARIANTS, Floats

STEPS = 60
NATIVE_ONLY = {"adagrad_row"}
ROW_VARIANTS: list[tuple[str, dict[str, float]]] = [
    ("adagrad_row", {}),
    ("adagrad_row", {"lr_decay": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.1, "maximize": 1}),
]
variants = pytest.mark.parametrize(("rule", "args"), VARIANTS, ids=str)
devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
            ],
        ),
    ],
)


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


def kept(parts: tuple[Part, ...], constants: Args) -> list[float]:
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


@variants
def test_rows_of_a_table(rule: str, args: dict[str, float]) -> None:
    given = training(20, 37)
    assert_same(rule, by_table(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@devices
@variants
def test_rows_beside_the_model(rule: str, args: dict[str, float], device: str) -> None:
    given = training(20, 37)
    assert_same(rule, by_cached_rows(device)(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@variants
def test_dense_parameters_in_host_memory(rule: str, args: dict[str, float]) -> None:
    given = training(1, 301)
    assert_same(rule, by_group("host")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@devices
@variants
def test_dense_parameters_on_a_device(rule: str, args: dict[str, float], device: str) -> None:
    given = training(1, 301)
    assert_same(rule, by_group(device)(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@variants
def test_a_formula_rounds_little(rule: str, args: dict[str, float]) -> None:
    given = training(20, 37)
    found, wanted = by_formula(rule, args, given), by_formula(rule, args, given, torch.float64)
    assert_same(rule, found, wanted, 1e-5)
    assert not np.allclose(found.values, given.start)


@pytest.mark.parametrize("home", [by_table, by_group("host")], ids=["table", "dense"])
@pytest.mark.parametrize(("rule", "args"), ROW_VARIANTS, ids=str)
def test_the_rule_that_only_the_core_has(rule: str, args: dict[str, float], home: Home) -> None:
    given = training(20, 37) if home is by_table else training(1, 301)
    constants = {**RULES[rule].constants, **args}
    values, state = given.start.astype(np.float64), np.zeros((len(given.start), 2))
    state[:, 0] = constants["initial_accumulator_value"]
    for rows, grads, lr in given.steps:
        g = (-1 if constants["maximize"] else 1) * grads + constants["weight_decay"] * values[rows]
        rate = lr / (1 + constants["lr_decay"] * state[rows, 1])
        state[rows] += np.stack([(g * g).mean(axis=1), np.ones(len(rows))], axis=1)
        values[rows] -= (rate / (np.sqrt(state[rows, 0]) + constants["eps"]))[:, None] * g
    num_scalars = len(kept(RULES[rule].scalars, constants))
    assert_same(rule, home(rule, args, given), Trained(values, state[:, :num_scalars]), 1e-6)


def native_names() -> set[str]:
    with pytest.raises(ValueError, match="Known: ") as caught:
        _native.Rule("none of them", {})
    return set(str(caught.value).split("Known: ")[1].split(", "))


def test_every_rule_is_in_the_table_and_tried() -> None:
    assert set(RULES) == native_names()
    assert {rule for rule, _ in VARIANTS} == set(RULES) - NATIVE_ONLY
    assert {rule for rule, row in RULES.items() if row.formula is None} == NATIVE_ONLY
    assert {rule for rule, row in RULES.items() if row.bound} == {"ftrl", "lamb", "lars"}


@pytest.mark.parametrize("rule", RULES)
def test_the_core_has_the_defaults_of_the_table(rule: str) -> None:
    constants = {**RULES[rule].constants, **({"lr": 0.1} if rule == "lars" else {})}
    needed = {name: constants[name] for name in {"momentum": ("lr", "momentum"), "lars": ("lr",)}.get(rule, ())}
    grads, results = np.logspace(-12, 1, 64).astype(np.float32), []
    for args in (needed, constants):
        own = _native.Rule(rule, args)
        values, state = np.linspace(-1, 1, 64).astype(np.float32), own.start(64)
        for _ in range(5):
            own.apply(values, state, grads, own.lr)
        results.append((own.lr, values.tobytes(), state.tobytes()))
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="unknown argument"):
        _native.Rule(rule, {**constants, "another": 0})


SPECS: Mapping[str, RuleSpec] = {
    spec.name: spec
    for spec in (
        *(make() for make in (fleet.rules.SGD, fleet.rules.Momentum, fleet.rules.Adagrad, fleet.rules.DecayedAdagrad)),
        *(make() for make in (fleet.rules.Adam, fleet.rules.AdamW, fleet.rules.Adamax, fleet.rules.RMSprop)),
        *(make() for make in (fleet.rules.Ftrl, fleet.rules.Lamb, fleet.rules.Sum, fleet.rules.Average)),
        fleet.rules.Adagrad(per_row=True),
        fleet.rules.Lars(0.1),
    )
}


@pytest.mark.parametrize("rule", RULES)
def test_a_constructor_has_the_constants_of_the_table(rule: str) -> None:
    constants = {**RULES[rule].constants}
    if rule == "lars":
        constants["lr"] = 0.1
    if rule == "adamw":
        assert constants.pop("decoupled_weight_decay") == 1  # no choice of its own
    assert dict(SPECS[rule].args) == constants


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.999, 0.999999])
@pytest.mark.parametrize("is_root", [False, True])
def test_corrections(beta: float, is_root: bool) -> None:
    own = Corrections(beta, is_root=is_root)
    counts = [-3.0, 0.0, 1.0, 2.0, 30.0, 1000.0, LARGEST_TABLE, LARGEST_TABLE + 1.0, 2.0**24]
    wanted = [(1 - beta ** max(1.0, count)) ** (-0.5 if is_root else -1.0) for count in counts]
    np.testing.assert_allclose([own.at(float(count)) for count in counts], wanted, rtol=1e-7)
    np.testing.assert_allclose(own.at(torch.tensor(counts, dtype=torch.float64)), wanted, rtol=1e-7)
