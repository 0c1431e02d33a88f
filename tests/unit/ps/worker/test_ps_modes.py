"""How each mode keeps step: what is sent when, what is waited for, and what is left when a worker stops.

Workers are `Fleet` objects in threads. A job of one has its server in this process without a network; those of several
have real ports.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.nn import Embedding
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker import modes
from fleet.ps.worker.modes.async_mode import Async
from fleet.ps.worker.sending.gradients import Gradients
from support.parity.training import LIMIT_S, Trainer, dense_of, in_threads, joined, served, strategy
from support.processes import wait_until

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Answer

pytestmark = pytest.mark.timeout(300)

ALL_MODES = ["sync", "async", "half", "geo"]


class Weights(nn.Module):
    """One row and one dense parameter, each with whatever gradient is asked for."""

    def __init__(self, rule: Any = None) -> None:
        super().__init__()
        zeros = fleet.initializers.Constant(0.0)
        self.emb = Embedding(2, "ads", rule=rule or fleet.rules.SGD(lr=1.0), initializer=zeros)
        self.w = nn.Parameter(torch.zeros(3))

    def row(self, key: int = 1) -> list[float]:
        with torch.no_grad():
            row: list[float] = self.emb(torch.tensor([key]))[0].tolist()
            return row


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def learn(one: Trainer, amount: float = 1.0, key: int = 1, dense: float | None = None) -> None:
    """One step whose gradient is `amount` for a row and `dense` for the parameter, everywhere."""
    model = one.model
    assert isinstance(model, Weights)
    one.optimizer.zero_grad()
    (amount * model.emb(torch.tensor([key])).sum() + (amount if dense is None else dense) * model.w.sum()).backward()
    one.optimizer.step()


class Gate:
    """Stands before a server in this process and lets calls of one method through when it is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str = "Push") -> None:
        self.is_open = threading.Event()
        self.num_waiting = 0
        call = LocalTransport.call

        def wait(transport: LocalTransport, name: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
            if name == method:
                self.num_waiting += 1
                self.is_open.wait(LIMIT_S)
            return call(transport, name, header, tensors, timeout_s)

        monkeypatch.setattr(LocalTransport, "call", wait)


@pytest.mark.parametrize("mode", ALL_MODES)
def test_stop_sends_everything(mode: str) -> None:
    """The server has every gradient, the model the server's parameters."""
    with served() as ([endpoint], [service]):
        with joined([endpoint], model=Weights(), optimizer=sgd, strategy=strategy(mode, k_steps=4)) as one:
            for _ in range(10):
                learn(one)
            one.fleet.stop_worker()
            assert isinstance(one.model, Weights)
            torch.testing.assert_close(one.model.w.detach(), torch.full((3,), -10.0))
        holdings = service.state.holdings
        assert holdings is not None
        np.testing.assert_array_equal(holdings.tables[0].pull(np.array([1])), [[-10.0, -10.0]])
        np.testing.assert_array_equal(holdings.groups[0].read(), [-10.0] * 3)


@pytest.mark.parametrize("mode", ["async", "half"])
@pytest.mark.parametrize(("rule", "expected"), [("sgd", -6.0), ("momentum", -2.0)])
def test_merged_pushes_are_a_sum_for_sgd_and_a_mean_otherwise(mode: str, rule: str, expected: float) -> None:
    """Three pushes become one; a momentum that has just begun steps by the gradient it is given."""
    momentum = 0.0 if rule == "sgd" else 0.5
    fields = {"max_merge_var_num": 3, "send_queue_size": 8, "send_wait_times": 100_000}
    with joined(
        model=Weights(fleet.rules.SGD(lr=1.0, momentum=momentum)),
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1.0, momentum=momentum),
        strategy=strategy(mode, **fields),
    ) as one:
        assert isinstance(one.model, Weights)
        for amount in (1.0, 2.0, 3.0):
            learn(one, amount, key=1)
        one.fleet.flush()
        assert one.stats()[0]["pushes"] == 1
        assert one.model.row() == [expected, expected]
        learn(one, 0.0, key=2)  # in async mode parameters that have come are taken in a step
        one.fleet.stop_worker()
        if not momentum:
            torch.testing.assert_close(one.model.w.detach(), torch.full((3,), expected))


def test_keys_that_only_some_of_the_merged_pushes_have() -> None:
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("half", max_merge_var_num=3)) as one:
        assert isinstance(one.model, Weights)
        for key in (1, 2, 1):
            learn(one, key=key)
        assert (one.model.row(1), one.model.row(2)) == ([-2.0, -2.0], [-1.0, -1.0])
        assert one.stats()[0]["pushes"] == 1


def test_a_full_queue_lets_training_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("async", send_queue_size=2)) as one:
        num_done = 0

        def train() -> None:
            nonlocal num_done
            for _ in range(6):
                learn(one)
                num_done += 1

        thread = threading.Thread(target=train)
        thread.start()
        wait_until(lambda: num_done == 3, LIMIT_S, "one push under way and two in the queue")
        thread.join(0.3)
        assert (num_done, gate.num_waiting) == (3, 1)
        gate.is_open.set()
        thread.join(LIMIT_S)
        one.fleet.flush()
        assert one.stats()[0]["pushes"] == 6


def test_half_async_waits_for_its_own_push(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("half")) as one:
        thread = threading.Thread(target=learn, args=(one,))
        thread.start()
        wait_until(lambda: gate.num_waiting == 1, LIMIT_S, "the push")
        thread.join(0.2)
        assert thread.is_alive()
        gate.is_open.set()
        thread.join(LIMIT_S)
        assert isinstance(one.model, Weights)
        torch.testing.assert_close(one.model.w.detach(), torch.full((3,), -1.0))
        assert one.model.row() == [-1.0, -1.0]


@pytest.mark.parametrize("num_pushes", [1, 3])
def test_an_independent_thread_receives(num_pushes: int) -> None:
    fields = {"independent_recv_thread": True, "min_send_grad_num_before_recv": num_pushes}
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("async", **fields)) as one:
        assert isinstance(one.model, Weights)
        names = [thread.name for thread in threading.enumerate()]
        assert "fleet-receive" in names
        for _ in range(6):
            learn(one)
        one.fleet.flush()
        expected = 1 + 6 + 6 // num_pushes  # the first values, rows before each step, what the thread receives
        wait_until(lambda: one.stats()[0]["pulls"] >= expected, LIMIT_S, "the thread's pulls")
        one.fleet.stop_worker()
        torch.testing.assert_close(one.model.w.detach(), torch.full((3,), -6.0))


@pytest.mark.parametrize("method", ["Push", "Pull"])
def test_an_error_of_a_thread_reaches_whoever_trains(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, as it was; and no thread stays behind."""
    handle = Service.handle
    is_broken = threading.Event()

    def fail(service: Service, name: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        is_of_a_thread = name == method and (method == "Push" or getattr(header, "dense", False))
        if is_of_a_thread and is_broken.is_set():
            raise UsageError("table 'ads' is broken")
        return handle(service, name, header, tensors)

    monkeypatch.setattr(Service, "handle", fail)
    fields = {"independent_recv_thread": True, "send_queue_size": 1}
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("async", **fields)) as one:
        learn(one)
        is_broken.set()
        with pytest.raises(UsageError, match="table 'ads' is broken"):
            for _ in range(100):
                learn(one)
        with pytest.raises(UsageError, match="table 'ads' is broken"):
            one.fleet.stop_worker()


def test_what_was_not_sent_is_not_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(monkeypatch)
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("async", send_queue_size=4)) as one:
        for _ in range(3):
            learn(one)
        wait_until(lambda: gate.num_waiting == 1, LIMIT_S, "the first push")
        warn = Async._warn_of_loss

        def warn_and_open(mode: Async, num_steps: int) -> None:
            warn(mode, num_steps)
            gate.is_open.set()  # only now, or what is not sent would be less

        monkeypatch.setattr(Async, "_warn_of_loss", warn_and_open)
        with caplog.at_level(logging.WARNING):
            one.fleet.shutdown()  # as at the end of a script that forgot stop_worker()
    assert [record.getMessage() for record in caplog.records] == [
        "the gradients of 2 steps of worker 0 were not sent; call fleet.stop_worker() when training ends"
    ]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("where", ["rows", "dense"])
def test_a_nan_is_refused_and_training_can_go_on(mode: str, where: str) -> None:
    nan = float("nan")
    what = "table 'ads'" if where == "rows" else "dense parameters"
    with joined(model=Weights(), optimizer=sgd, strategy=strategy(mode, k_steps=1)) as one:
        assert isinstance(one.model, Weights)
        learn(one)
        with pytest.raises(
            UsageError, match=f"{what}: the gradients of worker 0, step 1 hold a NaN or an Inf; nothing"
        ):
            learn(one, *((nan, 1, 0.0) if where == "rows" else (0.0, 1, nan)))
        learn(one)
        one.fleet.stop_worker()
        torch.testing.assert_close(one.model.w.detach(), torch.full((3,), -2.0))


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_nan_is_skipped_where_the_strategy_says_so(mode: str) -> None:
    nan = float("nan")
    given = strategy(mode, nonfinite_gradients="skip", k_steps=1)
    with joined(model=Weights(), optimizer=sgd, strategy=given) as one:
        assert isinstance(one.model, Weights)
        learn(one)
        learn(one, nan, dense=1.0)
        learn(one, 1.0, dense=nan)
        one.fleet.flush()
        assert one.model.row() == [-2.0, -2.0]
        if mode != "geo":
            assert one.stats()[0]["skipped"] == 2
        one.fleet.stop_worker()
        torch.testing.assert_close(one.model.w.detach(), torch.full((3,), -2.0))


@pytest.mark.parametrize("mode", ["async", "half"])
def test_staleness_is_counted(mode: str) -> None:
    """Two workers compute on the same parameters; whoever pushes second was one push behind."""
    with served() as ([endpoint], _):
        with (
            joined([endpoint], 0, 2, model=Weights(), optimizer=sgd, strategy=strategy(mode)) as one,
            joined([endpoint], 1, 2, model=Weights(), optimizer=sgd, strategy=strategy(mode)) as other,
        ):
            for each in (one, other):
                assert isinstance(each.model, Weights)
                (each.model.emb(torch.tensor([1])).sum() + each.model.w.sum()).backward()
            for each in (one, other):
                each.optimizer.step()
                each.fleet.flush()
            stats = one.stats()[0]
            assert (stats["stale_pushes"], stats["staleness"]["max"]) == (1, 1)


@pytest.mark.parametrize("mode", ["sync", "half"])
def test_a_model_of_dense_parameters_alone_is_not_stale(mode: str) -> None:
    linear = nn.Linear(2, 1)
    with joined(model=linear, optimizer=sgd, strategy=strategy(mode)) as one:
        for _ in range(5):
            one.optimizer.zero_grad()
            linear(torch.ones(1, 2)).sum().backward()
            one.optimizer.step()
        assert one.stats()[0]["staleness"] == {"mean": 0.0, "max": 0}


def test_an_exchange_leaves_gradients_alone() -> None:
    with joined(model=Weights(), optimizer=sgd, strategy=strategy("geo", k_steps=5)) as one:
        learn(one)
        assert isinstance(one.model, Weights)
        (7 * one.model.w.sum()).backward()
        before = one.model.w.grad
        assert before is not None
        one.fleet.flush()
        assert one.model.w.grad is before
        assert before.tolist() == [8.0] * 3


def test_two_workers_in_step_equal_one_with_both_batches() -> None:
    def work(index: int) -> dict[str, bytes]:
        with joined(endpoints, index, 2, model=Weights(), optimizer=sgd) as one:
            for step in range(4):
                learn(one, amounts[index][step], key=step % 2)
            one.fleet.stop_worker()
            return dense_of(one.model)

    amounts: Sequence[Sequence[float]] = [[1, 2, 3, 4], [5, 6, 7, 8]]
    with served(2) as (endpoints, _):
        both = in_threads(lambda: work(0), lambda: work(1))
    with joined(model=Weights(), optimizer=sgd) as alone:
        for step in range(4):
            learn(alone, (amounts[0][step] + amounts[1][step]) / 2, key=step % 2)
        alone.fleet.stop_worker()
    assert both == [dense_of(alone.model)] * 2


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with joined(model=Weights()) as one:
        setup = one.worker.policy._setup
        object.__setattr__(setup.client.job, "mode", "nothing")
        with pytest.raises(UsageError, match="there is no mode 'nothing'; there are sync, async, half_async, geo"):
            modes.make_push_policy(setup)


def test_closing_twice_is_closing_once() -> None:
    with joined(model=Weights(), strategy=strategy("async")) as one:
        worker = one.worker
        assert isinstance(worker.policy, Async)
        worker.policy.step(Gradients(0), [])
        worker.stop()
        worker.close()
        worker.close()
