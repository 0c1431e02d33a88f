"""Optimizers and schedules of version 1.8 over tensors: torch's updates, 1.8's arguments, calls and rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotReadyError, UsageError
from fleet_paddle import dygraph, imperative, mode
from fleet_paddle.fluid import epochs, optimizer, rates, updates
from fleet_programs.backward.clip import GradientClipByGlobalNorm, GradientClipByNorm
from fleet_programs.parameters.regularizer import L1Decay, L2Decay

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def imperative_mode() -> Iterator[None]:
    with mode.guard():
        yield


def step(layer: Any, own: Any) -> float:
    loss = imperative.mean(imperative.square(layer(dygraph.to_variable(X)) - 1.0))
    loss.backward()
    own.minimize(loss)
    own.clear_gradients()
    return float(loss)


def weights(layer: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([one.numpy().ravel() for one in layer.parameters()])


def twin(layer: Any) -> list[torch.Tensor]:
    return [torch.from_numpy(one.numpy().copy()).requires_grad_() for one in layer.parameters()]


PAIRS = {
    "SGD": ({}, torch.optim.SGD, {}),
    "Momentum": ({"momentum": 0.9, "use_nesterov": True}, torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "Adam": ({}, torch.optim.Adam, {}),
    "Adamax": ({}, torch.optim.Adamax, {}),
    "Adadelta": ({"epsilon": 1e-3}, torch.optim.Adadelta, {"eps": 1e-3, "rho": 0.95, "lr": 1.0}),
    "Adagrad": ({"epsilon": 1e-10}, torch.optim.Adagrad, {"eps": 1e-10}),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_updates_are_those_of_torch(kind: str) -> None:
    more, of_torch, settings = PAIRS[kind]
    layer = dygraph.Linear(4, 2)
    weight, bias = twin(layer)
    clip = GradientClipByGlobalNorm(0.5)
    own = getattr(optimizer, kind)(
        learning_rate=0.1, parameter_list=layer.parameters(), regularization=L2Decay(0.01), grad_clip=clip, **more
    )
    other = of_torch([weight, bias], **{"lr": 0.1, "weight_decay": 0.01, **settings})
    for _ in range(3):
        step(layer, own)
        other.zero_grad()
        torch.square(torch.from_numpy(X) @ weight + bias - 1.0).mean().backward()
        torch.nn.utils.clip_grad_norm_([weight, bias], 0.5)
        other.step()
    np.testing.assert_allclose(layer.weight.numpy(), weight.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.bias.numpy(), bias.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [name for name in optimizer.__all__ if not name.endswith("Optimizer")])
def test_every_optimizer_trains_tensors_and_programs(kind: str) -> None:
    more = {"momentum": 0.5} if "Momentum" in kind else {}
    made = getattr(optimizer, kind)
    assert getattr(optimizer, f"{kind}Optimizer", made) is made
    layer = dygraph.Linear(4, 1, param_attr=static.ParamAttr(initializer=static.initializer.Constant(0.2)))
    own = made(0.05, parameter_list=layer.parameters(), regularization=L1Decay(1e-4), **more)
    losses = [step(layer, own) for _ in range(4)]
    assert losses[-1] < losses[0]
    mode.enable_static()
    x = static.data("x", [None, 4])
    out = static.layers.fc(x, 1, param_attr=static.initializer.Constant(0.2))
    loss = static.layers.mean(static.layers.square(out - 1.0))
    of_program = made(0.05, regularization=L1Decay(1e-4), **more)
    assert isinstance(of_program, static.optimizer.Optimizer)
    of_program.minimize(loss)
    with static.scope_guard(static.Scope()):
        exe = static.Executor(static.CPUPlace())
        exe.run(static.default_startup_program())
        found = [float(exe.run(feed={"x": X}, fetch_list=[loss])[0].item()) for _ in range(4)]
    np.testing.assert_allclose(losses, found, rtol=1e-4)


def test_a_sparse_gradient_changes_its_rows_alone() -> None:
    layer = dygraph.Embedding([6, 2], is_sparse=True, padding_idx=5)
    before = layer.weight.numpy().copy()
    own = optimizer.Adam(0.1, parameter_list=layer.parameters(), grad_clip=GradientClipByNorm(1.0))
    loss = imperative.sum(layer(dygraph.to_variable(np.array([[1, 3], [1, 5]]))))
    loss.backward()
    own.minimize(loss)
    moved = np.abs(layer.weight.numpy() - before).sum(1) > 0
    assert moved.tolist() == [False, True, False, True, False, False]
    assert own.state_dict()["embedding_0.w_0_step_0"].shape == [6]


def test_what_a_parameter_says_of_itself() -> None:
    attr = static.ParamAttr(learning_rate=0.0, regularizer=L2Decay(0.5))
    layer = dygraph.Linear(4, 1, bias_attr=attr)
    bias = layer.bias.numpy().copy()
    own = optimizer.SGD(0.1, parameter_list=layer.parameters())
    step(layer, own)
    np.testing.assert_array_equal(layer.bias.numpy(), bias)
    only = optimizer.SGDOptimizer(0.1, layer.parameters())  # by place, as version 1.8 has it
    kept = layer.weight.numpy().copy()
    loss = imperative.mean(layer(dygraph.to_variable(X)))
    loss.backward()
    assert [one for one, _ in only.minimize(loss, no_grad_set={layer.weight})[1]] == [layer.bias]
    np.testing.assert_array_equal(layer.weight.numpy(), kept)
    layer.weight.data = layer.weight.data.clone()  # other memory
    only.minimize(loss)
    assert not np.array_equal(layer.weight.numpy(), kept)


def test_a_saved_state_goes_on(tmp_path: Path) -> None:
    def trained(count: int, path: Path | None) -> Any:
        with mode.guard():
            torch.manual_seed(3)
            layer = dygraph.Linear(4, 1)
            rate = rates.ExponentialDecay(0.1, 1, 0.5)
            own = optimizer.Adam(rate, parameter_list=layer.parameters())
            if path is not None:
                values, state = dygraph.load_dygraph(path)
                assert values is not None
                assert state is not None
                layer.set_dict(values)
                own.set_dict(state)
            for _ in range(count):
                step(layer, own)
            return layer, own

    layer, own = trained(2, None)
    dygraph.save_dygraph(layer.state_dict(), tmp_path / "in" / "model")
    dygraph.save_dygraph(own.state_dict(), tmp_path / "in" / "model")
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["model.pdopt", "model.pdparams"]
    again, same = trained(2, tmp_path / "in" / "model")
    np.testing.assert_allclose(weights(again), weights(trained(4, None)[0]), rtol=1e-6)
    assert same.current_step_lr() == pytest.approx(0.1 * 0.5**3)
    wider = dygraph.Linear(4, 3)
    other = optimizer.Adam(0.1, parameter_list=wider.parameters())
    other.set_dict(same._updates.state())
    with pytest.raises(UsageError, match=r"set_dict: 'linear_0.w_0_moment1_0' has shape \[4, 3\], the state \[4, 1\]"):
        step(wider, other)
    with pytest.raises(UsageError, match="the state has no 'LR_Scheduler'"):
        own.set_dict({})


def test_rates() -> None:
    layer = dygraph.Linear(4, 1)
    own = optimizer.SGD(0.1, parameter_list=layer.parameters())
    assert own.current_step_lr() == own.get_lr() == 0.1
    own.set_lr(0.5)
    step(layer, own)
    assert own.current_step_lr() == 0.5
    own.set_lr(dygraph.to_variable(np.array([0.25], np.float32)))
    assert own.current_step_lr() == 0.25
    moving = optimizer.SGD(rates.PiecewiseDecay([2, 4], [1.0, 0.5, 0.25], begin=0), parameter_list=layer.parameters())
    assert moving.current_step_lr() == 1.0
    found = []
    for _ in range(6):
        step(layer, moving)
        found.append(moving.current_step_lr())
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    with pytest.raises(UsageError, match="a schedule decides"):
        moving.set_lr(0.1)
    newer = imperative.optimizer.lr.StepDecay(0.1, 1, 0.5)
    of_script = optimizer.SGD(newer, parameter_list=layer.parameters())
    step(layer, of_script)
    newer.step()
    assert of_script.current_step_lr() == pytest.approx(0.05)


def three(schedule: Any) -> list[float]:
    return [schedule() for _ in range(3)]


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (rates.ExponentialDecay(0.1, 2, 0.25), [0.1, 0.05, 0.025]),
        (rates.ExponentialDecay(0.1, 2, 0.25, staircase=True), [0.1, 0.1, 0.025]),
        (rates.NaturalExpDecay(0.1, 1, 0.5), [0.1 * math.exp(-0.5 * n) for n in range(3)]),
        (rates.InverseTimeDecay(0.1, 1, 0.5, begin=1), [0.1 / (1 + 0.5 * n) for n in (1, 2, 3)]),
        (rates.PolynomialDecay(0.1, 2, 0.02, power=1.0), [0.1, 0.06, 0.02]),
        (rates.PolynomialDecay(0.1, 1, 0.02, cycle=True, begin=1), [0.02, 0.02, 0.02]),
        (rates.CosineDecay(0.1, 1, 4), [0.1, 0.05 * (math.cos(math.pi / 4) + 1), 0.05]),
        (rates.NoamDecay(64, 2, learning_rate=2.0), [0.25 * 2**-1.5, 0.25 * 2**-0.5, 0.25 * 3**-0.5]),
        (rates.LinearLrWarmup(0.3, 3, 0.0, 0.3, begin=1), [0.1, 0.2, 0.3]),
        (rates.LinearLrWarmup(rates.ExponentialDecay(0.4, 1, 0.5), 2, 0.0, 0.2, begin=0), [0.0, 0.1, 0.1]),
    ],
)
def test_schedules_have_the_formulas_of_version_1_8(schedule: Any, wanted: list[float]) -> None:
    before = schedule.state_dict()
    np.testing.assert_allclose(three(schedule), wanted, rtol=1e-6)
    schedule.set_dict(before)
    np.testing.assert_allclose(three(schedule), wanted, rtol=1e-6)


def test_schedules_of_epochs() -> None:
    found = []
    for schedule in (
        epochs.StepDecay(1.0, 2, 0.5),
        epochs.MultiStepDecay(1.0, [1, 3], 0.5),
        epochs.LambdaDecay(1.0, lambda epoch: 1 / (1 + epoch)),
    ):
        for _ in range(4):
            assert schedule() == schedule()
            found.append(schedule())
            schedule.epoch()
    assert found == [1, 1, 0.5, 0.5, 1, 0.5, 0.5, 0.25, 1, 1 / 2, 1 / 3, 1 / 4]
    plateau = epochs.ReduceLROnPlateau(1.0, decay_rate=0.5, patience=1, cooldown=1)
    assert [plateau.step(loss) for loss in (1.0, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    with pytest.raises(UsageError, match="no 'epoch_num'"):
        epochs.StepDecay(1.0, 2).set_dict({"step_num": 1})


def test_mistakes_are_named() -> None:
    layer = dygraph.Linear(4, 1)
    loss = imperative.mean(layer(dygraph.to_variable(X)))
    with pytest.raises(UsageError, match=r"Adam: parameter_list must be given for tensors"):
        optimizer.Adam(0.1).minimize(loss)
    with pytest.raises(NotReadyError, match=r"there are no gradients; call loss.backward\(\) before"):
        optimizer.Adam(0.1, parameter_list=layer.parameters()).minimize(loss)
    x = static.data("x", [None, 4])
    with pytest.raises(UsageError, match="SGD: this learning rate is for tensors; use layers.piecewise_decay"):
        optimizer.SGD(rates.ExponentialDecay(0.1, 1, 0.5)).minimize(static.layers.mean(static.layers.fc(x, 1)))


def test_compiled_updates_are_bounded_and_what_they_keep_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "MAX_STEPS", 2)
    parameters = [dygraph.Linear(2, 1).weight for _ in range(3)]
    before = [one.numpy() for one in parameters]
    own = optimizer.Momentum(0.1, 0.9, parameter_list=parameters)
    for one in parameters * 2:
        own.apply_gradients([(one, torch.ones(2, 1))])
        assert len(own._updates._steps) <= 2
    for one, first in zip(parameters, before, strict=True):
        np.testing.assert_allclose(first - one.numpy(), 0.1 + 0.19, rtol=1e-5)
