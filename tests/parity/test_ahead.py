"""Dense gradients that leave while backward runs leave the very bits that those do which leave with the step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fleet.api import Fleet
from fleet.ps.worker.parts import meters
from fleet.ps.worker.sending.dense_ahead import DenseAhead
from fleet.roles import Role, UserDefinedRoleMaker
from support.jobs import fleetrun
from support.parity.training import Trainer, batch, dense_of, joined, strategy
from support.processes import wait_until
from support.worker import ahead_job
from support.worker.ahead import (
    NUM_STEPS,
    Habit,
    backward,
    deep,
    dense_bytes,
    serving,
    train,
    use_tcp,
)

pytestmark = pytest.mark.timeout(120)
LIMIT_S = 30.0
SIZE = dense_bytes(deep())


@pytest.fixture(autouse=True)
def _tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    use_tcp(monkeypatch)


def plain(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    backward(one, step)
    one.optimizer.step()


def zeroed_by_the_model(one: Trainer, step: int) -> None:
    one.model.zero_grad(set_to_none=True)
    backward(one, step)
    one.optimizer.step()


def unused(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    backward(one, step, is_seldom=step % 3 == 2)
    one.optimizer.step()


def accumulated(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    backward(one, 2 * step)
    backward(one, 2 * step + 1, is_seldom=step % 2 == 0)
    one.optimizer.step()


def accumulated_at_will(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    for number in range(1 + step % 3):
        backward(one, 3 * step + number)
    one.optimizer.step()


def clipped(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    backward(one, step)
    for parameter in one.model.parameters():
        if parameter.grad is not None and parameter.numel():
            parameter.grad.mul_(1e-3)
    one.optimizer.step()


def clipped_behind_autograd(one: Trainer, step: int) -> None:
    """As many a script does: no version of a tensor tells of it."""
    one.optimizer.zero_grad()
    backward(one, step)
    for parameter in one.model.parameters():
        if parameter.grad is not None and parameter.numel():
            parameter.grad.data.clamp_(-1e-4, 1e-4)
    one.optimizer.step()


def changed_here_and_there(one: Trainer, step: int) -> None:
    """One gradient is dropped, one is another tensor, one is changed by a single bit, one keeps what it has."""
    one.optimizer.zero_grad()
    backward(one, step)
    model = one.model
    model.get_parameter("last.bias").grad = None
    weight = model.get_parameter("second.weight")
    assert weight.grad is not None
    weight.grad = weight.grad.t().contiguous().t()
    first = model.get_parameter("first.weight").grad
    assert first is not None
    first.numpy().view("u4")[step, 1] ^= 1
    one.optimizer.step()


def begun_twice(one: Trainer, step: int) -> None:
    """A backward that no step follows."""
    one.optimizer.zero_grad()
    if step % 2:
        backward(one, 100 + step)
        one.optimizer.zero_grad()
    backward(one, step)
    one.optimizer.step()


def by_closure(one: Trainer, step: int) -> None:
    def closure() -> torch.Tensor:
        one.optimizer.zero_grad()
        backward(one, step)
        return torch.tensor(0.0)

    one.optimizer.step(closure)


ALL = 2 * NUM_STEPS * SIZE
"""What two workers send."""


@pytest.mark.parametrize(
    ("habit", "least", "most"),
    [
        (plain, ALL, ALL),
        (zeroed_by_the_model, ALL, ALL),
        (begun_twice, ALL, ALL),
        (by_closure, ALL, ALL),
        (unused, ALL // 2, ALL - 1),  # what is used again after a while was not waited for
        (accumulated, ALL // 4, ALL - 1),
        (accumulated_at_will, 0, ALL // 2),
        (clipped, 0, 0),
        (clipped_behind_autograd, 0, ALL // 10),
        (changed_here_and_there, ALL // 10, ALL * 9 // 10),
    ],
)
def test_the_same_bits(habit: Habit, least: int, most: int) -> None:
    late = train(habit, is_ahead=False)
    early = train(habit, is_ahead=True)
    assert (late.sent, late.joined) == (0, 0)
    assert early.dense == late.dense
    assert early.rows == late.rows
    assert early.dense[0] == early.dense[1]
    assert least <= early.joined <= most
    assert early.sent >= early.joined


@pytest.mark.timeout(200)
def test_processes(tmp_path: Path) -> None:
    """As they come: with servers and workers in processes, and once on a journal."""
    found = {}
    for name, options in {"late": (), "early": (), "durable": ("--durable", tmp_path / "journal")}.items():
        (out := tmp_path / name).mkdir()
        result = fleetrun(
            *("--server_num", 2, "--worker_num", 2, *options, Path(ahead_job.__file__)),
            *("--steps", NUM_STEPS, "--ahead", int(name != "late"), "--out", out),
            cwd=out,
            environ={"PYTHONPATH": str(Path(__file__).parents[1]), "FLEET_LOCAL_TRANSPORT": "TCP"},
            limit_s=90.0,
            warm=True,
        )
        assert result.code == 0, result.err
        found[name] = [json.loads((out / f"worker{index}.json").read_text()) for index in range(2)]
    assert len({one["digest"] for workers in found.values() for one in workers}) == 1
    for name, workers in found.items():
        for one in workers:
            expected = 0 if name == "late" else NUM_STEPS * one["dense_bytes"]
            assert one.get("ahead.sent_bytes", 0) == one.get("ahead.joined_bytes", 0) == expected


def test_it_has_come_before_the_step() -> None:
    with serving(2) as servers, joined(servers.endpoints, model=deep(), strategy=strategy()) as one:
        for step in range(3):
            one.optimizer.zero_grad()
            assert servers.ahead_bytes() == 0
            backward(one, step)
            wait_until(lambda: servers.ahead_bytes() >= SIZE, LIMIT_S, "all gradients to come before the step")
            one.optimizer.step()
        assert servers.ahead_bytes() == 0


def test_who_always_clips_soon_sends_nothing_ahead(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet.ps.worker.sending.dense_ahead")
    found = train(clipped, is_ahead=True, num_workers=1, num_steps=12)
    assert (found.sent, found.joined, found.rests) == (3 * SIZE, 0, 1)
    assert f"{SIZE} of {SIZE} bytes of dense gradients that left ahead of their step were changed" in caplog.text


def test_groups_that_step_apart() -> None:
    """Two optimizers, each with a push of its own: what waits for the second is not lost by the first."""
    late, early = (step_apart(is_ahead=is_ahead) for is_ahead in (False, True))
    assert early[0] == late[0]
    assert (late[1], early[1]) == (0, 4 * SIZE)


def step_apart(*, is_ahead: bool) -> tuple[dict[str, bytes], int]:
    """The values in the end, and how much of them went ahead."""
    before = meters.counts().get("ahead.joined_bytes", 0)
    with serving(2) as servers:
        here = Fleet()
        here.init(
            UserDefinedRoleMaker(0, Role.WORKER, 1, list(map(str, servers.endpoints))),
            strategy=strategy("sync", wire_configs={"dense_ahead": is_ahead}),
        )
        model = here.distributed_model(deep())
        layers: list[list[torch.nn.Module]] = [[model.emb, model.first], [model.second, model.seldom, model.last]]
        each = [[parameter for layer in some for parameter in layer.parameters()] for some in layers]
        optimizers = [here.distributed_optimizer(torch.optim.SGD(some, lr=0.1)) for some in each]
        try:
            here.init_worker()
            for step in range(4):
                for optimizer in optimizers:
                    optimizer.zero_grad()
                ids, target = batch(step)
                torch.nn.functional.mse_loss(model(ids, True), target).backward()
                for optimizer in optimizers:
                    optimizer.step()
            here.stop_worker()
            return dense_of(model), meters.counts().get("ahead.joined_bytes", 0) - before
        finally:
            here.shutdown()


@pytest.mark.parametrize(
    "wire", [{"dense_gradients": "bfloat16"}, {"dense_topk": 0.5}, {"dense_ahead": False}], ids=["bf16", "topk", "off"]
)
def test_what_travels_otherwise_goes_with_the_step(wire: dict[str, object]) -> None:
    with serving(1) as servers, joined(servers.endpoints, model=deep(), strategy=strategy(wire_configs=wire)) as one:
        assert not any(isinstance(part, DenseAhead) for part in one.worker.parts)
        plain(one, 0)


def test_nothing_is_left_on_the_parameters() -> None:
    with serving(1) as servers, joined(servers.endpoints, model=deep(), strategy=strategy()) as one:
        plain(one, 0)
        before = meters.counts()
        one.fleet.stop_worker()
        backward_of = sum((parameter**2).sum() for parameter in one.model.parameters() if parameter.numel())
        assert isinstance(backward_of, torch.Tensor)
        backward_of.backward()
        assert meters.counts() == before


def test_optimizers_with_state() -> None:
    late, early = (
        train(plain, is_ahead=is_ahead, optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=0.01))
        for is_ahead in (False, True)
    )
    assert early.dense == late.dense
    assert early.joined == ALL
