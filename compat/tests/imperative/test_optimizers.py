"""Optimizers of the imperative mode step as torch's do; schedules, clips and groups do what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_paddle.imperative as paddle
from fleet.collective import tuning
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.optim import Lamb
from fleet.ps.job.from_torch import rule_of
from fleet.strategy import DistributedStrategy
from fleet_paddle.imperative import amp, nn, optimizer
from fleet_paddle.imperative.optimizer import lr
from fleet_paddle.imperative.optimizer.methods import PaddleMethods, with_methods
from fleet_programs.parameters.regularizer import L1Decay, L2Decay

START = torch.tensor([1.0, -2.0, 3.0])


def steps(kind: Callable[..., Any], count: int = 3, start: torch.Tensor = START, **settings: Any) -> torch.Tensor:
    """Where an optimizer takes a parameter whose gradient is its square, and a second one that has none."""
    weight, idle = paddle.create_parameter([len(start)]), paddle.create_parameter([1])
    weight.set_value(start)
    made = kind(parameters=[weight, idle], **settings)
    for _ in range(count):
        (weight**3 / 3).sum().backward()
        made.step()
        made.clear_grad()
    return weight.detach()


def plain(kind: Callable[..., torch.optim.Optimizer], **settings: Any) -> torch.Tensor:
    weight = START.clone().requires_grad_()
    made = kind([weight], **settings)
    for _ in range(3):
        (weight**3 / 3).sum().backward()
        made.step()
        made.zero_grad()
    return weight.detach()


@pytest.mark.parametrize(
    ("ours", "settings", "torchs", "same"),
    [
        (optimizer.SGD, {"learning_rate": 0.1}, torch.optim.SGD, {"lr": 0.1}),
        (
            optimizer.SGD,
            {"learning_rate": 0.1, "weight_decay": L2Decay(0.2)},
            torch.optim.SGD,
            {"lr": 0.1, "weight_decay": 0.2},
        ),
        (optimizer.Momentum, {"learning_rate": 0.1}, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (
            optimizer.Momentum,
            {"learning_rate": 0.1, "use_nesterov": True},
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        ),
        (
            optimizer.Adam,
            {"learning_rate": 0.1, "weight_decay": 0.2},
            torch.optim.Adam,
            {"lr": 0.1, "weight_decay": 0.2},
        ),
        (
            optimizer.Adam,
            {"beta1": 0.5, "beta2": 0.6, "epsilon": 0.1},
            torch.optim.Adam,
            {"betas": (0.5, 0.6), "eps": 0.1},
        ),
        (optimizer.AdamW, {"learning_rate": 0.1}, torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.01}),
        (
            optimizer.Adagrad,
            {"learning_rate": 0.1, "initial_accumulator_value": 0.5},
            torch.optim.Adagrad,
            {"lr": 0.1, "eps": 1e-6, "initial_accumulator_value": 0.5},
        ),
        (
            optimizer.RMSProp,
            {"learning_rate": 0.1, "momentum": 0.5, "centered": True},
            torch.optim.RMSprop,
            {"lr": 0.1, "alpha": 0.95, "eps": 1e-6, "momentum": 0.5, "centered": True},
        ),
        (
            optimizer.Adadelta,
            {"learning_rate": 0.3, "epsilon": 1e-3, "rho": 0.9},
            torch.optim.Adadelta,
            {"lr": 1.0, "eps": 1e-3, "rho": 0.9},
        ),
        (optimizer.Adamax, {"learning_rate": 0.1}, torch.optim.Adamax, {"lr": 0.1}),
        (optimizer.Lamb, {"learning_rate": 0.1}, Lamb, {"lr": 0.1, "eps": 1e-6, "weight_decay": 0.01}),
    ],
)
def test_steps_are_torchs(ours: Any, settings: Any, torchs: Any, same: Any) -> None:
    torch.testing.assert_close(torch.Tensor(steps(ours, **settings)), plain(torchs, **same), rtol=0, atol=0)


SPARSE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "SGD": (optimizer.SGD, {}),
    "SGD decay": (optimizer.SGD, {"weight_decay": 0.1}),
    "SGD clip": (optimizer.SGD, {"grad_clip": nn.ClipGradByGlobalNorm(0.5)}),
    "SGD value": (optimizer.SGD, {"grad_clip": nn.ClipGradByValue(0.5)}),
    "Momentum": (optimizer.Momentum, {"use_nesterov": True}),
    "Adagrad": (optimizer.Adagrad, {"initial_accumulator_value": 0.1}),
    "Adagrad clip": (optimizer.Adagrad, {"grad_clip": nn.ClipGradByNorm(0.5)}),
    "Adagrad L1": (optimizer.Adagrad, {"weight_decay": L1Decay(0.1)}),
    "Adam": (optimizer.Adam, {"weight_decay": 0.1}),
    "AdamW": (optimizer.AdamW, {"grad_clip": nn.ClipGradByGlobalNorm(0.5)}),
    "Adadelta": (optimizer.Adadelta, {}),
    "Adamax": (optimizer.Adamax, {}),
    "RMSProp": (optimizer.RMSProp, {"momentum": 0.9}),
    "Lamb": (optimizer.Lamb, {}),
}


SOME, EVERY = ([1, 1, 2], [2, 0], [2, 4]), ([4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 4])


def embedded(kind: Callable[..., Any], sparse: bool, batches: Any = SOME, **settings: Any) -> Any:
    """Rows trained with ids of which one comes twice in a batch, one in every batch and one in none; and a weight."""
    table = nn.Embedding(5, 2, sparse=sparse, weight_attr=nn.initializer.Assign(torch.arange(10.0).view(5, 2) / 10))
    weight = paddle.create_parameter([2], default_initializer=nn.initializer.Constant(1.0))
    made = kind(learning_rate=0.1, parameters=[table.weight, weight], **settings)
    for ids in batches:
        (table(paddle.to_tensor(ids)) * weight).square().sum().backward()
        made.step()
        assert np.shape(table.weight.gradient()) == (5, 2)
        made.clear_grad()
    return table.weight


@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_gradient_trains_as_a_dense_one(name: str) -> None:
    kind, settings = SPARSE[name]
    one, other = (embedded(kind, sparse, **settings).detach() for sparse in (True, False))
    torch.testing.assert_close(torch.Tensor(one), torch.Tensor(other), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("kind", "decayed"), [(optimizer.Adam, 1.0), (optimizer.AdamW, 0.99**3)])
def test_lazy_rows_stay_until_they_have_a_gradient(kind: Any, decayed: float) -> None:
    lazy, every = (embedded(kind, True, weight_decay=0.1, lazy_mode=is_lazy).numpy() for is_lazy in (True, False))
    np.testing.assert_allclose(lazy[3], np.array([0.6, 0.7]) * decayed, rtol=1e-6)  # nobody asked for it
    assert abs(lazy[1] - every[1]).max() > 0.01  # its moments would move it on
    full = [embedded(kind, True, EVERY, weight_decay=0.1, lazy_mode=is_lazy).numpy() for is_lazy in (True, False)]
    np.testing.assert_allclose(full[0], full[1], rtol=1e-6, atol=1e-7)


def test_what_a_parameter_says_itself() -> None:
    def trained(kind: Any = optimizer.SGD, penalty: Any = None, **attr: Any) -> float:
        weight = nn.Linear(1, 1, paddle.ParamAttr(initializer=nn.initializer.Constant(2.0), **attr), False).weight
        made = kind(0.5, parameters=[weight, paddle.create_parameter([1])], weight_decay=penalty)
        (weight * 3).sum().backward()
        made.step()
        assert made.get_lr() == 0.5
        return float(weight)

    assert trained() == 2 - 0.5 * 3
    assert trained(learning_rate=0.1) == pytest.approx(2 - 0.05 * 3)
    assert trained(learning_rate=0.0) == 2
    assert trained(regularizer=L2Decay(0.1), penalty=7.0) == pytest.approx(2 - 0.5 * 3.2)
    assert trained(regularizer=L2Decay(0.0), penalty=7.0) == pytest.approx(2 - 0.5 * 3)
    assert trained(regularizer=L1Decay(0.1), penalty=7.0) == pytest.approx(2 - 0.5 * 3.1)
    assert trained(penalty=L1Decay(1.0)) == pytest.approx(2 - 0.5 * 4)
    assert trained(optimizer.AdamW, 0.0, regularizer=L2Decay(0.1)) == pytest.approx(1.5)
    free = paddle.create_parameter([1], attr=paddle.ParamAttr(need_clip=False))
    made = optimizer.SGD(1.0, [free], grad_clip=nn.ClipGradByGlobalNorm(0.1))
    (free * 3).backward()
    made.step()
    assert free.gradient() == 3
    with pytest.raises(UsageError, match="Fleet does not know its argument penalty"):
        l1 = optimizer.SGD(1.0, [free], L1Decay(0.1))
        rule_of(l1, l1.param_groups[0])


def test_a_loss_is_scaled_and_a_step_that_overflows_left_out() -> None:
    weight = paddle.create_parameter([1], default_initializer=nn.initializer.Constant(1.0))
    sgd = optimizer.SGD(0.5, [weight])
    scaler = amp.GradScaler(init_loss_scaling=8.0, decr_every_n_nan_or_inf=1, incr_every_n_steps=2)
    for factor, value, scale in ((1.0, 0.5, 8), (math.inf, 0.5, 4), (1.0, 0.0, 4), (1.0, -0.5, 8)):
        scaled = scaler.scale((weight * factor).sum())
        scaled.backward()
        scaler.minimize(sgd, scaled)
        sgd.clear_grad()
        assert (float(weight), float(scaler.scale(paddle.ones([1])))) == (value, scale)
    again = amp.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert float(again.scale(paddle.ones([1]))) == 8
    with amp.auto_cast():
        assert paddle.matmul(paddle.ones([2, 2]), paddle.ones([2, 2])).dtype in (torch.bfloat16, torch.float16)
    with pytest.raises(NotSupportedError, match="custom_white_list"), amp.auto_cast(custom_white_list={"relu"}):
        pass


def test_a_rate_falls_when_a_measure_stays() -> None:
    rate = lr.ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    sgd = optimizer.SGD(rate, [paddle.create_parameter([1])])
    rates = []
    for loss in (5.0, 4.0, paddle.to_tensor([4.0]), np.array([4.0]), 4.0, 4.0, 4.0, 9.0, 9.0, 9.0):
        rate.step(loss)
        rates.append(sgd.get_lr())
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2]
    again = lr.ReduceOnPlateau(1.0)
    again.set_state_dict(rate.state_dict())
    assert (again.best, again()) == (4.0, 0.2)


@pytest.mark.parametrize(
    ("clip", "wanted"),
    [
        (nn.ClipGradByGlobalNorm(0.1), 0.1 / math.sqrt(98)),
        (nn.ClipGradByNorm(0.1), 0.1 / math.sqrt(98)),
        (nn.ClipGradByValue(0.001), 0.001 / 9),
    ],
)
def test_gradients_are_clipped_before_the_step(clip: Any, wanted: float) -> None:
    moved = START - steps(optimizer.SGD, 1, learning_rate=1.0, grad_clip=clip)
    assert float(moved[2]) == pytest.approx(9 * wanted, rel=1e-3)


@pytest.mark.parametrize("kind", [nn.ClipGradByGlobalNorm, nn.ClipGradByNorm, nn.ClipGradByValue])
def test_what_need_clip_exempts_is_neither_clipped_nor_measured(kind: Any) -> None:
    one, other = (paddle.create_parameter([1], name=name) for name in ("w", "free"))
    sgd = optimizer.SGD(0.1, [one, other], grad_clip=kind(2.0, need_clip=lambda p: p.name != "free"))
    (one * 4 + other * 3).backward()
    sgd.step()
    assert one.gradient() == pytest.approx(2)
    assert other.gradient() == pytest.approx(3)


def test_rates_of_groups_names_and_of_now() -> None:
    one, other = (paddle.create_parameter([1], name=name) for name in ("w", "b"))
    made = optimizer.SGD(0.5, parameters=[{"params": [one]}, {"params": [other], "learning_rate": 0.1}])
    assert [group["lr"] for group in made.param_groups] == [0.5, 0.05]
    made.set_lr(1.0)
    assert [group["lr"] for group in made.param_groups] == [1.0, 0.1]
    assert made.get_lr() == 1.0
    decayed = optimizer.AdamW(parameters=[one, other], apply_decay_param_fun=lambda name: name == "w")
    assert [group["weight_decay"] for group in decayed.param_groups] == [0.01, 0.0]
    with pytest.raises(NotReadyError, match=r"call loss.backward\(\) first"):
        made.minimize(one.sum())
    loss = (one * 3).sum()
    loss.backward()
    before = float(one)
    _, pairs = made.minimize(loss)
    assert len(pairs) == 1
    assert float(one) == pytest.approx(before - 3)


def test_a_state_is_saved_and_goes_on(tmp_path: Path) -> None:
    def trained(made: Any, weight: Any, count: int) -> None:
        for _ in range(count):
            (weight**2).sum().backward()
            made.step()
            made.clear_grad()
            made.scheduler.step()

    one = paddle.create_parameter([3])
    first = optimizer.Adam(lr.StepDecay(0.1, 2), parameters=[one])
    trained(first, one, 2)
    assert first.state_dict()["LR_Scheduler"] == {"last_epoch": 2, "last_lr": pytest.approx(0.01)}
    paddle.save(first.state_dict(), tmp_path / "adam.pdopt")
    other = paddle.create_parameter([3])
    other.set_value(one.detach())
    second = optimizer.Adam(lr.StepDecay(0.1, 2), parameters=[other])
    second.set_state_dict(paddle.load(tmp_path / "adam.pdopt"))
    trained(first, one, 3)
    trained(second, other, 3)  # its schedule went on too, from step 2
    assert second.get_lr() == first.get_lr() == pytest.approx(0.001)
    torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (lambda: lr.PiecewiseDecay([2, 3], [1.0, 0.5, 0.1]), [1, 1, 0.5, 0.1, 0.1]),
        (lambda: lr.ExponentialDecay(1.0, 0.5), [1, 0.5, 0.25]),
        (lambda: lr.NaturalExpDecay(1.0, 0.5), [1, math.exp(-0.5), math.exp(-1)]),
        (lambda: lr.InverseTimeDecay(1.0, 0.5), [1, 1 / 1.5, 0.5]),
        (lambda: lr.PolynomialDecay(1.0, 2, end_lr=0.0), [1, 0.5, 0, 0]),
        (lambda: lr.PolynomialDecay(1.0, 2, end_lr=0.0, cycle=True), [1, 0.5, 0, 0.25]),
        (lambda: lr.StepDecay(1.0, 2), [1, 1, 0.1, 0.1, 0.01]),
        (lambda: lr.MultiStepDecay(1.0, [1, 3], 0.5), [1, 0.5, 0.5, 0.25]),
        (lambda: lr.LambdaDecay(2.0, lambda step: 1 / (1 + step)), [2, 1, 2 / 3]),
        (lambda: lr.MultiplicativeDecay(2.0, lambda step: 1 / (1 + step)), [2, 1, 1 / 3]),
        (lambda: lr.CosineAnnealingDecay(1.0, 2), [1, 0.5, 0, 0.5, 1]),
        (lambda: lr.NoamDecay(100, 2), [0, 0.1 * 2**-1.5, 0.1 * 2**-0.5, 0.1 * 3**-0.5]),
        (lambda: lr.LinearWarmup(lr.StepDecay(1.0, 1), 2, 0.0, 0.8), [0, 0.4, 1, 0.1]),
        (lambda: lr.LinearWarmup(0.5, 1, 0.1, 0.5), [0.1, 0.5, 0.5]),
    ],
)
def test_schedules(schedule: Callable[[], lr.LRScheduler], rates: list[float]) -> None:
    rate = schedule()
    made = optimizer.SGD(rate, parameters=[paddle.create_parameter([1])])
    found = []
    for _ in rates:
        found.append(made.get_lr())
        assert rate() == rate.last_lr == made.get_lr()
        rate.step()
    assert found == pytest.approx(rates)
    again = schedule()
    again.set_state_dict(rate.state_dict())
    assert again() == rate()
    with pytest.raises(UsageError, match="a schedule decides"):
        made.set_lr(0.5)


def test_the_other_parts_of_fleet_take_them_for_torchs() -> None:
    weight = paddle.create_parameter([2])
    made = optimizer.Adam(0.1, parameters=[weight])
    assert rule_of(made, made.param_groups[0]).name == "adam"
    assert tuning.fuse(made)
    wrapped: Any = with_methods(CollectiveOptimizer(made, DistributedStrategy()))
    assert type(wrapped).__mro__[1:] == (PaddleMethods, *CollectiveOptimizer.__mro__)
    assert wrapped.get_lr() == 0.1
    wrapped.set_lr(0.2)
    assert made.get_lr() == 0.2
    weight.sum().backward()
    wrapped.clear_grad()
    assert weight.grad is None
    clipped = optimizer.SGD(0.1, parameters=[weight], grad_clip=nn.ClipGradByNorm(1.0))
    with pytest.raises(UsageError, match="grad_clip needs gradients of all workers"):
        rule_of(clipped, clipped.param_groups[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda _: optimizer.SGD(0.1), UsageError, "parameters must be what to train"),
        (lambda w: optimizer.SGD(-1, parameters=[w]), UsageError, "learning_rate must be >= 0, got -1"),
        (lambda w: optimizer.SGD("fast", parameters=[w]), UsageTypeError, "learning_rate must be a number"),
        (lambda w: optimizer.AdamW(0.1, parameters=[w], weight_decay=L1Decay(0.1)), UsageError, "must be a number or"),
        (lambda w: optimizer.SGD(0.1, [w], "x"), UsageTypeError, "weight_decay must be a number, L1Decay or L2Decay"),
        (lambda w: optimizer.SGD(0.1, [w], grad_clip=1.0), UsageTypeError, "grad_clip must be one of nn.ClipGradBy"),
        (lambda _: lr.ReduceOnPlateau(0.1, mode="least"), UsageError, "mode must be one of min, max, got 'least'"),
        (lambda _: lr.StepDecay(0.1, 2).set_state_dict({}), UsageError, "the state has no last_epoch"),
        (lambda _: amp.GradScaler(decr_ratio=2.0), UsageError, "decr_ratio between 0 and 1, got 2.0 and 2.0"),
        (lambda w: optimizer.SGD(0.1, [w]).set_lr(-1), UsageError, "must be >= 0, got -1"),
        (lambda w: optimizer.SGD(0.1, [w]).minimize(w, parameters=[w]), NotSupportedError, "takes the loss alone"),
        (lambda _: lr.PiecewiseDecay([1], [1.0]), UsageError, "values must be one more than boundaries"),
        (lambda _: lr.StepDecay(0.1, 0), UsageError, "step_size must be >= 1"),
    ],
)
def test_mistakes(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(paddle.create_parameter([1]))
