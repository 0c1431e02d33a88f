"""States of optimizers that PaddlePaddle 2.6.2 saved: the next step is the one that it made there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import CheckpointError, NotSupportedError
from fleet_paddle import imperative, optimizer
from fleet_paddle.imperative import nn

DATA = Path(__file__).parent / "data"
EXPECTED = np.load(DATA / "expected.npz")


def line(name: str) -> Any:
    made = nn.Linear(3, 2)
    made.set_state_dict({key: imperative.to_tensor(EXPECTED[f"{name}/before/{key}"]) for key in ("weight", "bias")})
    return made


@pytest.mark.parametrize("kind", ["Momentum", "Adagrad", "Adamax", "Lamb", "AdamW"])
def test_the_next_step_is_the_same(kind: str) -> None:
    name = kind.lower()
    net = line(name)
    by = getattr(optimizer, kind)(learning_rate=0.1, parameters=net.parameters())
    by.set_state_dict(imperative.load(DATA / f"{name}.pdopt"))
    (net(imperative.to_tensor(EXPECTED["net_x"])) ** 2).sum().backward()
    by.step()
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(value.numpy(), EXPECTED[f"{name}/after/{key}"], rtol=2e-5, atol=1e-6, err_msg=key)


def test_adam_goes_on_with_its_schedule() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net.set_state_dict(imperative.load(DATA / "net_p4.pdparams"))
    rate = optimizer_rate()
    by = optimizer.Adam(learning_rate=rate, parameters=net.parameters())
    by.set_state_dict(imperative.load(DATA / "net.pdopt"))
    assert rate.last_epoch == 0
    net(imperative.to_tensor(EXPECTED["net_x"])).sum().backward()
    by.step()
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(value.numpy(), EXPECTED[f"net_next/{key}"], rtol=2e-5, atol=1e-6, err_msg=key)


def optimizer_rate() -> Any:
    from fleet_paddle.imperative.optimizer import lr

    made = lr.StepDecay(0.1, 2)
    made.step(7)
    return made


def test_states_that_do_not_fit() -> None:
    state = imperative.load(DATA / "adamw.pdopt")
    net = line("adamw")
    by = optimizer.Adam(learning_rate=0.1, parameters=net.parameters())
    with pytest.raises(CheckpointError, match="of 2 parameters, and this optimizer trains 1"):
        optimizer.Adam(learning_rate=0.1, parameters=[net.weight]).set_state_dict(state)
    with pytest.raises(CheckpointError, match="has no velocity, which SGD keeps"):
        optimizer.Momentum(learning_rate=0.1, parameters=net.parameters()).set_state_dict(state)
    with pytest.raises(CheckpointError, match=r"_moment1 has shape \[3, 2\], and the parameter \[2\]"):
        optimizer.Adam(learning_rate=0.1, parameters=[net.bias, net.weight]).set_state_dict(state)
    with pytest.raises(CheckpointError, match="beta1_pow_acc is 0.729, and no power of beta1 = 0.5"):
        optimizer.Adam(learning_rate=0.1, beta1=0.5, parameters=net.parameters()).set_state_dict(state)
    with pytest.raises(NotSupportedError, match="a state of PaddlePaddle's RMSprop is not read"):
        optimizer.RMSProp(learning_rate=0.1, parameters=net.parameters()).set_state_dict(state)
    with pytest.raises(NotSupportedError, match="master_weights are not read"):
        by.set_state_dict({**state, "master_weights": {"w": 1}})
    by.set_state_dict({})  # nothing was trained there yet
    assert not by.state


@pytest.mark.parametrize("steps", [0, 3, 700, 1200, 5000, 200_000])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.99, 0.9999)])
def test_adam_goes_on_after_any_number_of_steps(steps: int, betas: tuple[float, float]) -> None:
    """float32 has no power of 0.9 after a thousand steps, and none of 0.999 after a hundred thousand."""
    net = nn.Linear(1, 1, bias_attr=False)
    by = optimizer.Adam(learning_rate=0.1, beta1=betas[0], beta2=betas[1], parameters=net.parameters())
    powers = [np.float32(one) ** np.float32(steps + 1) for one in betas]
    state = {"w_0_moment1_0": np.full((1, 1), 0.5, "f4"), "w_0_moment2_0": np.full((1, 1), 0.25, "f4")}
    by.set_state_dict(state | {f"w_0_beta{place}_pow_acc_0": np.array([one]) for place, one in enumerate(powers, 1)})
    before = float(net.weight)
    net(imperative.to_tensor([[1.0]])).sum().backward()
    by.step()
    first, second = 0.5 * betas[0] + 1 - betas[0], 0.25 * betas[1] + 1 - betas[1]
    right = first / (1 - betas[0] ** (steps + 1)) / (second / (1 - betas[1] ** (steps + 1))) ** 0.5
    assert before - float(net.weight) == pytest.approx(0.1 * right, rel=2e-3)


def test_adam_needs_its_powers() -> None:
    net = nn.Linear(1, 1, bias_attr=False)
    state = {"w_0_moment1_0": np.ones((1, 1), "f4"), "w_0_moment2_0": np.ones((1, 1), "f4")}
    with pytest.raises(CheckpointError, match="w_0 has no beta1_pow_acc"):
        optimizer.Adam(parameters=net.parameters()).set_state_dict(state)


def test_adadelta_goes_on_from_a_state_of_paddlepaddles_names() -> None:
    net = nn.Linear(3, 1, bias_attr=False)
    first = net.weight.numpy().copy()
    squares, steps = np.full((3, 1), 0.25, np.float32), np.full((3, 1), 0.04, np.float32)
    state = {"linear_0.w_0__avg_squared_grad_0": squares, "linear_0.w_0__avg_squared_update_0": steps}
    by = optimizer.Adadelta(epsilon=1e-3, rho=0.9, parameters=net.parameters())
    by.set_state_dict(state)
    (net.weight * 2.0).sum().backward()
    by.step()
    moved = 2 * np.sqrt((0.04 + 1e-3) / (0.9 * 0.25 + 0.1 * 4 + 1e-3))
    np.testing.assert_allclose(first - net.weight.numpy(), moved, rtol=1e-5)
