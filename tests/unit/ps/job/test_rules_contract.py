"""Every rule in every place that has it, against its row of `fleet.ps.job.rule_table`.

Update operators of programs have their part of it in tests/unit/static/test_updates.py, a GPU has its own in
tests/gpu/test_rules_gpu.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import fleet
from fleet import _native
from fleet.ps.job.corrections import LARGEST_TABLE, Corrections
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.rule_table import RULES
from support.rule_homes import (
    Home,
    Trained,
    assert_same,
    by_cached_rows,
    by_formula,
    by_group,
    by_table,
    kept,
    training,
)
from support.worker.dense_rules import VARIANTS

PAGE = Path(__file__).parents[4] / "docs" / "parameter_server.md"
NATIVE_ONLY = {"adagrad_row"}
ROW_VARIANTS: list[tuple[str, dict[str, float]]] = [
    ("adagrad_row", {}),
    ("adagrad_row", {"lr_decay": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.1, "maximize": 1}),
]
variants = pytest.mark.parametrize(("rule", "args"), VARIANTS, ids=str)


@variants
def test_rows_of_a_table(rule: str, args: dict[str, float]) -> None:
    given = training(20, 37)
    assert_same(rule, by_table(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@variants
def test_rows_beside_the_model(rule: str, args: dict[str, float]) -> None:
    given = training(20, 37)
    assert_same(rule, by_cached_rows("cpu")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@variants
def test_dense_parameters_in_host_memory(rule: str, args: dict[str, float]) -> None:
    given = training(1, 301)
    assert_same(rule, by_group("host")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@variants
def test_dense_parameters_as_on_a_device(rule: str, args: dict[str, float]) -> None:
    given = training(1, 301)
    assert_same(rule, by_group("cpu")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


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


def test_the_page_has_the_table() -> None:
    """What a rule keeps, and where else than in host memory it runs."""
    lines = []
    for name, row in RULES.items():
        parts = [(f"{part.name} (D)", part.goes_with) for part in row.arrays]
        parts += [(f"{part.name} (1)", part.goes_with) for part in row.scalars]
        beside = (
            ", ".join(f"{what} with `{goes_with}`" if goes_with else what for what, goes_with in parts) or "nothing"
        )
        where = "neither" if row.formula is None else "the second" if row.bound else "both"
        lines.append(f"| `{name}` | {beside} | {where} |\n")
    assert "|---|---|---|\n" + "".join(lines) + "\n" in PAGE.read_text(), "".join(lines)


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
    np.testing.assert_allclose([float(own.at(float(count))) for count in counts], wanted, rtol=1e-7)
    np.testing.assert_allclose(own.at(torch.tensor(counts, dtype=torch.float64)), wanted, rtol=1e-7)
