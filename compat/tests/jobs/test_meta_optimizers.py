"""Meta-optimizers in the spelling of 2.0: the main program has their operators, in their order, and trains."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet.runtime.collective_job  # noqa: F401 - imported in a job, torch.distributed.nn would keep that job's group
from fleet.api import fleet as shared
from fleet_programs import Scope, unique_name

paddle: Any = importlib.import_module("paddle")


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    paddle.enable_static()
    yield
    shared.shutdown()
    paddle.disable_static()


def minimized(optimizer: Any, **fields: Any) -> tuple[Any, list[float]]:
    paddle_fleet = importlib.import_module("paddle.distributed.fleet")
    paddle_fleet.init(is_collective=True)
    strategy = paddle_fleet.DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 3
    with paddle.static.program_guard(main, startup), unique_name.guard():
        x = paddle.static.data("x", [None, 4], "float32")
        y = paddle.static.data("y", [None, 1], "float32")
        hidden = paddle.nn.functional.gelu(paddle.static.nn.fc(x, 8, activation="tanh"))
        cost = paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y))
        paddle_fleet.distributed_optimizer(optimizer, strategy=strategy).minimize(cost)
    exe = paddle.static.Executor(paddle.CPUPlace())
    random = np.random.default_rng(2)
    losses = []
    with paddle.static.scope_guard(Scope()):
        exe.run(startup)
        for _ in range(40):
            batch = random.normal(size=(16, 4)).astype("float32")
            fed = {"x": batch, "y": batch[:, :1]}
            losses.append(float(np.asarray(exe.run(main, feed=fed, fetch_list=[cost])[0]).ravel()[0]))
    return main, losses


def in_order(main: Any, *wanted: str) -> bool:
    """Whether types of operators occur in a program one after the other, others between them."""
    types = iter([op.type for block in main.blocks for op in block.ops])
    return all(one in types for one in wanted)


@pytest.mark.parametrize(
    ("kind", "fields", "types"),
    [
        (
            "Momentum",
            {"amp": True},
            "cast mul elementwise_mul fill_constant check_finite_and_unscale update_loss_scaling momentum",
        ),
        ("Momentum", {"lars": True, "lars_configs": {"lars_coeff": 0.1}}, "mul_grad lars_momentum"),
        ("Adam", {"lamb": True}, "mul_grad lamb"),
        (
            "SGD",
            {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2, "avg": True}},
            "mul_grad sum increment elementwise_mod equal cond scale sgd fill_constant",
        ),
        (
            "SGD",
            {"recompute": True, "recompute_configs": {"checkpoints": ["fc_1.tmp_0"]}},
            "mul tanh gelu mul mean_grad mul tanh gelu mul_grad gelu_grad tanh_grad mul_grad sgd",
        ),
        ("SGD", {"localsgd": True, "localsgd_configs": {"k_steps": 4}}, "mul_grad sgd"),
    ],
)
def test_operators_and_training(kind: str, fields: dict[str, Any], types: str) -> None:
    rate = {"Adam": 0.02}.get(kind, 0.1)
    made = getattr(paddle.optimizer, kind)(learning_rate=rate)
    main, losses = minimized(made, **fields)
    assert in_order(main, *types.split()), main
    assert np.mean(losses[-8:]) < 0.6 * np.mean(losses[:8])


def test_what_is_not_built_for_programs_is_refused_when_it_is_used() -> None:
    with pytest.raises(Exception, match="strategy.dgc is not built for programs"):
        minimized(paddle.optimizer.Momentum(learning_rate=0.1), dgc=True)


def test_an_optimizer_that_is_decorated_by_hand() -> None:
    lists = paddle.static.amp.CustomOpLists(custom_black_list=["tanh"])
    by = paddle.static.amp.decorate(paddle.optimizer.SGD(learning_rate=0.1), lists, init_loss_scaling=128.0)
    main, losses = minimized(by)
    assert in_order(main, "cast", "mul", "check_finite_and_unscale", "update_loss_scaling", "sgd")
    assert main.global_block().var("fc_0.tmp_2").dtype == "float32"
    assert main.global_block().var("fc_0.tmp_0").dtype == "float16"
    assert np.mean(losses[-8:]) < 0.6 * np.mean(losses[:8])
    assert by.get_loss_scaling() == "loss_scaling_0"
    with pytest.raises(Exception, match="decorate: use_pure_fp16 is not built"):
        paddle.static.amp.decorate(paddle.optimizer.SGD(learning_rate=0.1), use_pure_fp16=True)
