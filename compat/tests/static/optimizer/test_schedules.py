"""Learning-rate schedules, step by step against their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.layers import learning_rate as rates
from fleet_programs.layers.io import fed
from fleet_programs.layers.table import elementwise_mul, mean
from fleet_programs.optimizer import SGD
from fleet_programs.program.variable import Variable
from program_support.programs import building

Make = Callable[[], Variable]
STEPS = 7

CASES: dict[str, tuple[Make, Callable[[int], float]]] = {
    "exponential": (lambda: rates.exponential_decay(0.5, 3, 0.9), lambda s: 0.5 * 0.9 ** (s / 3)),
    "exponential staircase": (lambda: rates.exponential_decay(0.5, 3, 0.9, True), lambda s: 0.5 * 0.9 ** (s // 3)),
    "natural exp": (lambda: rates.natural_exp_decay(0.5, 3, 0.9), lambda s: 0.5 * math.exp(-0.9 * s / 3)),
    "natural exp staircase": (
        lambda: rates.natural_exp_decay(0.5, 3, 0.9, staircase=True),
        lambda s: 0.5 * math.exp(-0.9 * (s // 3)),
    ),
    "inverse time": (lambda: rates.inverse_time_decay(0.5, 3, 0.9), lambda s: 0.5 / (1 + 0.9 * s / 3)),
    "inverse time staircase": (
        lambda: rates.inverse_time_decay(0.5, 3, 0.9, staircase=True),
        lambda s: 0.5 / (1 + 0.9 * (s // 3)),
    ),
    "polynomial": (
        lambda: rates.polynomial_decay(0.5, 4, 0.1, 2.0),
        lambda s: 0.4 * (1 - min(s, 4) / 4) ** 2 + 0.1,
    ),
    "polynomial cycle": (
        lambda: rates.polynomial_decay(0.5, 3, 0.1, 2.0, cycle=True),
        lambda s: 0.4 * (1 - s / (3 * max(1, math.ceil(s / 3)))) ** 2 + 0.1,
    ),
    "piecewise": (
        lambda: rates.piecewise_decay([2, 5], [0.3, 0.2, 0.1]),
        lambda s: 0.3 if s < 2 else 0.2 if s < 5 else 0.1,
    ),
    "piecewise of one": (lambda: rates.piecewise_decay([], [0.3]), lambda s: 0.3),  # noqa: ARG005
    "noam": (
        lambda: rates.noam_decay(64, 4, 2.0),
        lambda s: 2 * 64**-0.5 * min((s + 1) ** -0.5, (s + 1) * 4**-1.5),
    ),
    "cosine": (lambda: rates.cosine_decay(0.5, 2, 3), lambda s: 0.25 * (math.cos((s // 2) * math.pi / 3) + 1)),
    "warmup": (
        lambda: rates.linear_lr_warmup(0.5, 4, 0.1, 0.3),
        lambda s: 0.1 + 0.2 * s / 4 if s < 4 else 0.5,
    ),
    "warmup of a schedule": (
        lambda: rates.linear_lr_warmup(rates.exponential_decay(0.5, 3, 0.9), 4, 0.1, 0.3),
        lambda s: 0.1 + 0.2 * s / 4 if s < 4 else 0.5 * 0.9 ** (s / 3),
    ),
}


@pytest.mark.parametrize(("make", "formula"), CASES.values(), ids=CASES.keys())
def test_a_schedule(make: Make, formula: Callable[[int], float]) -> None:
    with building() as built:
        rate = make()
    assert (rate.shape, rate.dtype) == ((1,), "float32")
    assert {op.role for op in built.main.global_block().ops} == {"schedule"}
    built.start()
    found = [built.run(None, rate)[0] for _ in range(STEPS)]
    assert all(one.shape == (1,) and one.dtype == np.float32 for one in found)
    np.testing.assert_allclose(np.concatenate(found), [formula(step) for step in range(STEPS)], rtol=1e-6)


def test_schedules_share_one_count_which_only_training_moves() -> None:
    with building() as built:
        rate = rates.exponential_decay(1.0, 1, 0.5)
        other = rates.polynomial_decay(1.0, 10, 0.0)
        w = built.main.global_block().create_parameter("w", (1,))
        x = fed("x", [1])
        SGD(rate).minimize(mean(elementwise_mul(w, x)))
        test = built.main.clone(for_test=True)
    types = [op.type for op in built.main.global_block().ops]
    assert (types[0], types.count("increment")) == ("increment", 1)
    assert [op.type for op in test.global_block().ops] == ["elementwise_mul", "mean"]
    built.start(w=np.zeros(1, np.float32))
    one = {"x": np.ones(1, np.float32)}
    for _ in range(3):
        _, slope = built.run(one, rate, other)
    assert built["w"] == pytest.approx(-(1 + 0.5 + 0.25))
    assert slope == pytest.approx(0.8)
    assert built[rates.COUNTER] == [2]
    built.main = test
    built.run(one)
    assert built[rates.COUNTER] == [2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rates.exponential_decay(-1, 3, 0.9), "exponential_decay: learning_rate must be >= 0, got -1"),
        (lambda: rates.natural_exp_decay(0.1, 0, 0.9), "natural_exp_decay: decay_steps must be >= 1, got 0"),
        (lambda: rates.inverse_time_decay(0.1, 1, 0.9, 1), "staircase must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: rates.polynomial_decay(0.1, 3, power=0), "polynomial_decay: power must be > 0, got 0"),
        (lambda: rates.piecewise_decay([1, 2], [0.1, 0.2]), "values must be one more than boundaries, got 2 for 2"),
        (lambda: rates.piecewise_decay([2, 2], [0.1, 0.2, 0.3]), r"boundaries must ascend, got \[2, 2\]"),
        (lambda: rates.noam_decay(0, 1), "noam_decay: d_model must be > 0, got 0"),
        (lambda: rates.cosine_decay(0.1, 1, 0), "cosine_decay: epochs must be >= 1, got 0"),
        (lambda: rates.linear_lr_warmup("0.1", 1, 0, 1), "learning_rate must be a number, got '0.1'"),  # type: ignore[arg-type]
        (lambda: rates.linear_lr_warmup(fed("x", [2]), 1, 0, 1), "LearningRate must have one element, got shape"),
    ],
)
def test_bad_settings_are_named(make: Make, message: str) -> None:
    with building(), pytest.raises((UsageError, UsageTypeError), match=message):
        make()
