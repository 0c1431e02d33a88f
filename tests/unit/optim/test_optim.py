"""fleet.optim: LARS and LAMB against their formulas, and what taking over from torch's optimizers keeps and refuses."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import StepLR

from fleet.errors import UsageError
from fleet.optim import DGCMomentum, Lamb, Lars

SHAPES = [(5, 7), (7,), (3, 4, 2), (1,)]
NAMES = ["first.weight", "first.bias", "second.weight", "norm.weight"]


def parameters(dtype: torch.dtype = torch.float64) -> list[Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)) for shape in SHAPES]


def set_gradients(params: list[Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator, dtype=torch.float64).to(param.dtype)


def grad_of(param: Parameter) -> Tensor:
    assert param.grad is not None
    return param.grad


def train(optimizer: Optimizer, params: list[Parameter], num_steps: int, first: int = 0) -> None:
    for step in range(first, first + num_steps):
        set_gradients(params, step)
        optimizer.step()


class SlowLars:
    """One parameter at a time, as the formula is written."""

    def __init__(self, momentum: float, coeff: float, epsilon: float, nesterov: bool) -> None:
        self.momentum, self.coeff, self.epsilon, self.nesterov = momentum, coeff, epsilon, nesterov
        self.velocity: dict[int, Tensor] = {}

    def step(self, number: int, w: Tensor, g: Tensor, lr: float, decay: float) -> None:
        w_norm, g_norm = float(w.norm()), float(g.norm())
        rate = lr
        if w_norm > 0 and g_norm > 0:
            rate = lr * self.coeff * w_norm / (g_norm + decay * w_norm + self.epsilon)
        change = rate * (g + decay * w)
        v = self.momentum * self.velocity.get(number, torch.zeros_like(w)) + change
        self.velocity[number] = v
        w -= change + self.momentum * v if self.nesterov else v


class SlowLamb:
    def __init__(self, betas: tuple[float, float], eps: float) -> None:
        self.betas, self.eps = betas, eps
        self.moments: dict[int, tuple[Tensor, Tensor, int]] = {}

    def step(self, number: int, w: Tensor, g: Tensor, lr: float, decay: float) -> None:
        (b1, b2), zeros = self.betas, torch.zeros_like(w)
        m, v, t = self.moments.get(number, (zeros, zeros, 0))
        m, v, t = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g, t + 1
        self.moments[number] = m, v, t
        r = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + self.eps) + decay * w
        w_norm, r_norm = float(w.norm()), float(r.norm())
        w -= lr * (w_norm / r_norm if w_norm > 0 and r_norm > 0 else 1.0) * r


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("nesterov", [False, True])
def test_lars_with_groups_and_a_schedule(dtype: torch.dtype, tolerance: float, nesterov: bool) -> None:
    params, slow_params = parameters(dtype), [param.detach().double() for param in parameters(dtype)]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.3, "weight_decay": 0.0}]
    lars = Lars(groups, lr=2.0, momentum=0.8, coeff=0.01, weight_decay=0.02, epsilon=1e-3, nesterov=nesterov)
    schedule = StepLR(lars, step_size=2, gamma=0.5)
    slow = SlowLars(0.8, 0.01, 1e-3, nesterov)
    for step in range(6):
        set_gradients(params, step)
        for number, (param, w) in enumerate(zip(params, slow_params, strict=True)):
            lr, decay = (2.0, 0.02) if number < 2 else (0.3, 0.0)
            slow.step(number, w, grad_of(param).double(), lr * 0.5 ** (step // 2), decay)
        lars.step()
        schedule.step()
    for param, w in zip(params, slow_params, strict=True):
        torch.testing.assert_close(param.detach().double(), w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_lamb_with_groups(dtype: torch.dtype, tolerance: float) -> None:
    params, slow_params = parameters(dtype), [param.detach().double() for param in parameters(dtype)]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.3, "weight_decay": 0.0}]
    lamb = Lamb(groups, lr=0.01, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.02)
    slow = SlowLamb((0.8, 0.95), 1e-5)
    for step in range(6):
        set_gradients(params, step)
        if step == 1:
            params[0].grad = None  # sits a step out, so that counts differ
        for number, (param, w) in enumerate(zip(params, slow_params, strict=True)):
            if param.grad is not None:
                slow.step(number, w, param.grad.double(), *((0.01, 0.02) if number < 2 else (0.3, 0.0)))
        lamb.step()
    for param, w in zip(params, slow_params, strict=True):
        torch.testing.assert_close(param.detach().double(), w, rtol=tolerance, atol=tolerance)


def test_where_a_norm_is_zero_the_rate_is_taken_as_it_is() -> None:
    zero, still = Parameter(torch.zeros(3)), Parameter(torch.ones(3))
    zero.grad, still.grad = torch.ones(3), torch.zeros(3)
    Lars([zero, still], lr=0.5, weight_decay=0.1).step()
    assert zero.tolist() == [-0.5] * 3
    assert still.tolist() == pytest.approx([1 - 0.5 * 0.1] * 3)

    zero, still = Parameter(torch.zeros(3)), Parameter(torch.ones(3))
    zero.grad, still.grad = torch.ones(3), torch.zeros(3)
    Lamb([zero, still], lr=0.5, weight_decay=0.0).step()
    assert zero.tolist() == pytest.approx([-0.5] * 3, rel=1e-5)
    assert still.tolist() == [1.0] * 3


def test_half_precision_keeps_its_dtype_and_does_not_overflow_in_the_norm() -> None:
    param = Parameter(torch.full((40000,), 2.0, dtype=torch.float16))
    param.grad = torch.full_like(param, 2.0)  # the sum of squares is beyond float16
    Lars([param], lr=1.0, coeff=0.25, weight_decay=0.0).step()
    assert param.dtype == torch.float16
    assert param[0].item() == 1.5


@pytest.mark.parametrize("kind", ["lars", "lamb"])
def test_taking_over_keeps_groups_schedules_and_checkpoints(kind: str) -> None:
    def both(params: list[Parameter]) -> tuple[Optimizer, Optimizer]:
        names = dict(zip(params, NAMES, strict=True))
        groups: list[dict[str, Any]] = [{"params": params[:1]}, {"params": params[1:], "lr": 0.2}]
        if kind == "lars":
            sgd = SGD(groups, lr=0.1, momentum=0.7, nesterov=True)
            return sgd, Lars.taking_over(sgd, weight_decay=0.1, exclude=["bias", "norm"], names=names)
        adam = AdamW(groups, lr=0.1, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.1)
        return adam, Lamb.taking_over(adam, weight_decay=0.1, exclude=["bias", "norm"], names=names)

    params = parameters()
    original, taken = both(params)
    assert taken.param_groups is original.param_groups
    set_gradients(params, 0)
    slow: Any = SlowLars(0.7, 0.001, 0.0, True) if kind == "lars" else SlowLamb((0.7, 0.9), 1e-4)
    expected = [param.detach().clone() for param in params]
    for number, (param, w) in enumerate(zip(params, expected, strict=True)):
        slow.step(number, w, grad_of(param), 0.1 if number == 0 else 0.2, 0.1 if number in (0, 2) else 0.0)
    schedule = StepLR(original, step_size=1, gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns where it believes a schedule to be ahead of its optimizer
        taken.step()
        schedule.step()
    for param, w in zip(params, expected, strict=True):
        torch.testing.assert_close(param.detach(), w, rtol=1e-12, atol=1e-12)
    assert [group["lr"] for group in taken.param_groups] == [0.05, 0.1]

    saved, saved_params = copy.deepcopy(taken.state_dict()), [param.detach().clone() for param in params]
    train(taken, params, 3, first=1)
    again = parameters()
    for param, value in zip(again, saved_params, strict=True):
        param.data.copy_(value)
    original_again, taken_again = both(again)
    taken_again.load_state_dict(saved)
    assert taken_again.param_groups is original_again.param_groups
    assert [group["lr"] for group in original_again.param_groups] == [0.05, 0.1]
    train(taken_again, again, 3, first=1)
    assert all(torch.equal(one, other) for one, other in zip(params, again, strict=True))


def test_lamb_goes_on_with_the_moments_of_an_adam_that_has_stepped() -> None:
    params = parameters()
    adam = Adam(params, lr=0.1)
    train(adam, params, 2)
    lamb = Lamb.taking_over(adam)
    train(lamb, params, 1, first=2)
    assert all(lamb.state[param]["step"] == 3 for param in params)


def one(**options: Any) -> dict[str, Any]:
    return {"params": [Parameter(torch.ones(2))], "lr": 0.1, **options}


def stepped() -> SGD:
    params = parameters()
    sgd = SGD(params, lr=0.1, momentum=0.9)
    train(sgd, params, 1)
    return sgd


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda: Lars.taking_over(SGD(**one())), "LARS needs momentum, got SGD with momentum=0; write SGD"),
        (lambda: Lars.taking_over(SGD(**one(momentum=0.9, dampening=0.1))), "LARS does not know dampening=0.1; leave"),
        (lambda: Lars.taking_over(SGD(**one(momentum=0.9, maximize=True))), "LARS does not know maximize=True"),
        (
            lambda: Lars.taking_over(SGD(**one(momentum=0.9, weight_decay=0.1))),
            "own, 0.0005, and SGD was given weight_decay=0.1; set the latter to 0 or both to the same",
        ),
        (lambda: Lars.taking_over(stepped()), "an SGD that has stepped; take over before that"),
        (lambda: Lars.taking_over(Adam(**one())), "LARS takes the place of torch.optim.SGD with momentum, got Adam"),  # type: ignore[arg-type]
        (lambda: Lamb.taking_over(Adam(**one(amsgrad=True))), "LAMB does not know amsgrad=True; leave it out"),
        (lambda: Lamb.taking_over(AdamW(**one(weight_decay=0.5))), "AdamW was given weight_decay=0.5"),
        (lambda: Lamb.taking_over(SGD(**one())), "LAMB takes the place of torch.optim.Adam or AdamW, got SGD"),  # type: ignore[arg-type]
        (lambda: Lars(**one(coeff=-1)), "coeff must be >= 0, got -1"),
        (lambda: Lamb(**one(betas=(0.9, 1.0))), "betas must be two numbers in .0, 1., got"),
        (lambda: DGCMomentum.taking_over(SGD(**one())), "DGC corrects momentum, got SGD with momentum=0"),
        (lambda: DGCMomentum.taking_over(SGD(**one(momentum=0.9, maximize=True))), "DGC does not know maximize=True"),
    ],
)
def test_what_cannot_be_honoured_is_refused(take: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        take()
    assert "\n" not in str(caught.value)


def test_sparse_gradients_are_refused() -> None:
    param = Parameter(torch.ones(4, 2))
    param.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (4, 2), check_invariants=True)
    with pytest.raises(UsageError, match="sparse gradient for a parameter of shape .4, 2.*sparse=False"):
        Lars([param], lr=0.1).step()


def test_a_part_of_a_name_that_matches_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    Lars.taking_over(SGD(**one(momentum=0.9)), exclude=["baias"], names={Parameter(torch.ones(1)): "a.bias"})
    assert "no parameter has 'baias' in its name" in caplog.text


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"dampening": 0.3}])
def test_dgc_momentum_is_the_sgd_but_for_what_came_compressed(options: dict[str, Any]) -> None:
    params, plain = parameters(), parameters()
    everywhere: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, **options}
    sgd, reference = SGD(params, **everywhere), SGD(plain, **everywhere)
    taken = DGCMomentum.taking_over(sgd)
    assert taken.param_groups is sgd.param_groups
    train(taken, params, 3)
    train(reference, plain, 3)
    assert all(torch.equal(param, other) for param, other in zip(params, plain, strict=True))

    taken.compressed.add(params[0])
    set_gradients(params, 3)
    set_gradients(plain, 3)
    expected = params[0].detach() - 0.1 * grad_of(params[0])
    grad = params[0].grad
    taken.step()
    reference.step()
    assert params[0].grad is grad
    torch.testing.assert_close(params[0].detach(), expected, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(param, other) for param, other in zip(params[1:], plain[1:], strict=True))

    taken.load_state_dict(taken.state_dict())
    assert taken.param_groups is sgd.param_groups
    assert taken.state is sgd.state
