"""ParameterUpdate operators and the rules of servers: the same numbers from both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet.ps.held.dense import dense_group
from fleet_programs import Executor, ParamAttr, Scope, layers, optimizer
from fleet_programs.parameters import regularizer
from fleet_programs.transpiler.planning.rules import rule_of
from fleet_programs.transpiler.planning.updates import Rate, updates_of
from program_support.trained_programs import Pair, built

L2 = regularizer.L2Decay(0.1)


def line(make: Callable[[], Any], dtype: str = "float32", factor: float = 1.0) -> Pair:
    def minimize() -> None:
        x = layers.data("x", [6], dtype=dtype)
        out = layers.fc(x, 1, bias_attr=False, param_attr=ParamAttr(learning_rate=factor))
        make().minimize(layers.mean(layers.square(out)))

    return built(minimize)


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizer.SGD(0.1, regularization=L2),
        lambda: optimizer.Momentum(0.1, 0.9),
        lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True, regularization=L2),
        lambda: optimizer.Momentum(0.1, 0.0, use_nesterov=True),
        lambda: optimizer.Adagrad(0.1, initial_accumulator_value=0.5, regularization=L2),
        lambda: optimizer.DecayedAdagrad(0.1, decay=0.8),
        lambda: optimizer.Adam(0.1, beta1=0.8, regularization=L2),
        lambda: optimizer.AdamW(0.1, weight_decay=0.2),
        lambda: optimizer.Adamax(0.1),
        lambda: optimizer.RMSProp(0.1, momentum=0.5, centered=True),
        lambda: optimizer.Ftrl(0.1, l1=0.01, l2=0.02),
        lambda: optimizer.LarsMomentum(0.1, 0.9, lars_coeff=0.1),
        lambda: optimizer.Lamb(0.1, lamb_weight_decay=0.1),
    ],
)
def test_a_rule_is_its_update(make: Callable[[], Any]) -> None:
    main, startup = line(make, factor=0.5)
    (update,) = updates_of(main)
    assert update.rate == Rate("learning_rate_0", 0.5)
    rule = rule_of(update.op, main.global_block())
    exe, scope = Executor(), Scope()
    exe.run(startup, scope=scope)
    group = dense_group(rule.name, dict(rule.args), [6], "cpu")
    group.start(scope.tensors["fc_0.w_0"].reshape(-1).numpy())
    rng = np.random.default_rng(0)
    for _ in range(4):
        feed = {"x": rng.normal(size=(5, 6)).astype("float32")}
        (gradient,) = exe.run(main, feed, ["fc_0.w_0@GRAD"], scope)
        group.apply(gradient.reshape(-1), 0.05)
        np.testing.assert_allclose(group.read(), scope.tensors["fc_0.w_0"].reshape(-1), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "dtype", "error", "message"),
    [
        (
            lambda: optimizer.SGD(0.1, regularization=regularizer.L1Decay(0.1)),
            "float32",
            UsageError,
            r"'fc_0.w_0' has an L1Decay, which servers do not know; use L2Decay or Ftrl\(l1=...\)",
        ),
        (lambda: optimizer.AdamW(0.1, regularization=L2), "float32", UsageError, "besides the weight decay of adamw"),
        (lambda: optimizer.SGD(0.1), "float64", NotSupportedError, "'fc_0.w_0' is float64; servers train float32"),
    ],
)
def test_what_servers_cannot_do(make: Callable[[], Any], dtype: str, error: type[Exception], message: str) -> None:
    main, _ = line(make, dtype)
    with pytest.raises(error, match=message):
        rule_of(updates_of(main)[0].op, main.global_block())
    if error is UsageError:  # decays, which only whoever applies the rule must know
        assert "weight_decay" in dict(rule_of(updates_of(main)[0].op, main.global_block(), is_applied=False).args)
