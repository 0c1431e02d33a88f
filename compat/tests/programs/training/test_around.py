"""Optimizers around another: the weights are those of the same training written out by hand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_paddle import mode

paddle: Any = importlib.import_module("paddle")
fluid: Any = importlib.import_module("paddle.fluid")
X = np.random.default_rng(0).standard_normal((6, 8, 4)).astype(np.float32)
FIRST = np.linspace(-1, 1, 4, dtype=np.float32).reshape(4, 1)


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    mode.enable_static()
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        yield


def trained(make: Callable[[Any], Any], count: int = 6) -> list[Any]:
    """The weight after each of some steps of square loss."""
    x = fluid.data("x", [None, 4])
    attr = fluid.ParamAttr("w", initializer=fluid.initializer.NumpyArrayInitializer(FIRST))
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 1, param_attr=attr, bias_attr=False) - 1.0))
    make(fluid.optimizer.SGD(0.1)).minimize(loss)
    found = []
    with static.scope_guard(static.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        for step in range(count):
            exe.run(feed={"x": X[step]}, fetch_list=[loss])
            found.append(static.global_scope().tensors["w"].numpy().copy())
    return found


def gradient(weight: Any, x: Any) -> Any:
    return 2 * x.T @ (x @ weight - 1) / len(x)


def test_lookahead_goes_back_towards_slow_weights() -> None:
    fast, slow, wanted = FIRST.copy(), FIRST.copy(), []
    for step in range(1, 7):
        fast = fast - 0.1 * gradient(fast, X[step - 1])
        if step == 1:
            slow = fast
        if step % 2 == 0:
            fast = slow = 0.3 * fast + 0.7 * slow
        wanted.append(fast)
    found = trained(lambda sgd: fluid.optimizer.LookaheadOptimizer(sgd, alpha=0.3, k=2))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("avg", [True, False])
def test_merged_gradients_update_in_the_last_run(avg: bool) -> None:
    weight, wanted = FIRST.copy(), []
    for step in range(0, 6, 3):
        total = sum(gradient(weight, X[step + more]) for more in range(3))
        wanted += [weight, weight]
        weight = weight - 0.1 * total / (3 if avg else 1)
        wanted.append(weight)
    found = trained(lambda sgd: fluid.optimizer.GradientMergeOptimizer(sgd, k_steps=3, avg=avg))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("by_hand", [False, True])
def test_recomputed_values_train_the_same(by_hand: bool) -> None:
    losses = {}
    for again in (False, True):
        with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
            x = fluid.data("x", [None, 4])
            fluid.default_startup_program().random_seed = 3
            one = fluid.layers.fc(fluid.layers.fc(x, 5, act="tanh"), 5, act="tanh")
            loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(one, 1) - 1.0))
            by = fluid.optimizer.Adam(0.05)
            if again:
                by = fluid.optimizer.RecomputeOptimizer(by)
                by._set_checkpoints([one])
            if by_hand:
                pairs = by.backward(loss, startup_program=None, parameter_list=None, no_grad_set=None)
                by.apply_optimize(loss, startup_program=None, params_grads=pairs)
            else:
                by.minimize(loss)
            made = [name for op in fluid.default_main_program().global_block().ops for name in op.output_names]
            assert any(".subprog_0" in name for name in made) == again
            with static.scope_guard(static.Scope()):
                exe = fluid.Executor(fluid.CPUPlace())
                exe.run(fluid.default_startup_program())
                losses[again] = [exe.run(feed={"x": batch}, fetch_list=[loss])[0].item() for batch in X]
    assert losses[True] == losses[False]
    assert losses[True][-1] < losses[True][0]


def test_mistakes_are_named() -> None:
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
    sgd = fluid.optimizer.SGD(0.1)
    with pytest.raises(NotReadyError, match=r"there are no checkpoints; give values between layers"):
        fluid.optimizer.RecomputeOptimizer(sgd).minimize(loss)
    with pytest.raises(UsageTypeError, match="give a list of variables or names"):
        fluid.optimizer.RecomputeOptimizer(sgd)._set_checkpoints(loss)
    with pytest.raises(UsageTypeError, match="LookaheadOptimizer: the optimizer must be one of programs, got str"):
        fluid.optimizer.LookaheadOptimizer("sgd")
    with pytest.raises(UsageError, match="k_steps must be a number of steps, 1 or more, got 0"):
        fluid.optimizer.GradientMergeOptimizer(sgd, k_steps=0)
    with pytest.raises(UsageError, match="alpha must be at most 1"):
        fluid.optimizer.LookaheadOptimizer(sgd, alpha=2.0)
    with mode.guard():
        tensor = paddle.to_tensor([1.0])
    with pytest.raises(UsageTypeError, match="the loss must be that of a program, got Tensor"):
        fluid.optimizer.LookaheadOptimizer(sgd).minimize(tensor)
