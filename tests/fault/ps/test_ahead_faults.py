"""Connections that are lost while gradients are on their way ahead: the push comes whole, and once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fleet.net import LOOPBACK, Endpoint
from support.parity.training import Trainer, joined, strategy
from support.plane.plane import Served
from support.plane.proxy import Cut, CuttingProxy, cutting
from support.sweeps import sweep
from support.worker.ahead import Servers, Trained, backward, deep, dense_bytes, serving, train, use_tcp

pytestmark = pytest.mark.timeout(180)
NextCut = Callable[[int], Callable[[], Cut | None]]
NUM_STEPS = 10
SIZE = dense_bytes(deep())


@pytest.fixture(autouse=True)
def _tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    use_tcp(monkeypatch)


def habit(one: Trainer, step: int) -> None:
    one.optimizer.zero_grad()
    backward(one, step)
    one.optimizer.step()


def cuts(seed: int) -> Callable[[], Cut]:
    """Connections that last for a few steps: they end ahead of a push, inside of it, or before its answer."""
    rng = random.Random(seed)
    return lambda: Cut(rng.choice(("up", "up", "down")), rng.randrange(3000, 3 * SIZE))


@contextmanager
def behind_proxies(
    servers: Servers, next_cut: Callable[[int], Callable[[], Cut | None]]
) -> Iterator[list[CuttingProxy]]:
    """Servers tell of data planes that are reached through proxies."""
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(cutting(Endpoint(LOOPBACK, port_of(one)), next_cut(number)))
            for number, one in enumerate(servers.served)
        ]
        for one, proxy in zip(servers.served, proxies, strict=True):
            one.service.core.data_port = proxy.endpoint.port
        yield proxies


def port_of(one: Served) -> int:
    assert one.plane is not None
    return one.plane._server.port


def trained(seed: int | None) -> tuple[Trained, int, list[dict[str, int]]]:
    """What became of a job whose connections are cut, how many were, and what its servers count."""
    with serving(2) as servers:
        if seed is None:
            return train(habit, is_ahead=False, num_steps=NUM_STEPS, servers=servers), 0, []
        with behind_proxies(servers, lambda number: cuts(10 * seed + number)) as proxies:
            found = train(habit, is_ahead=True, num_steps=NUM_STEPS, servers=servers)
            counts = [one.state.stats.counts() for one in servers.services]
            return found, sum(proxy.num_cuts for proxy in proxies), counts


@pytest.mark.parametrize("seed", sweep(range(1, 7), sample=lambda seed: seed == 1))
def test_a_push_whose_parts_were_cut_off_is_applied_once(seed: int) -> None:
    expected, _, _ = trained(None)
    found, num_cuts, counts = trained(seed)
    assert num_cuts > 3
    assert 0 < found.joined < found.sent
    assert found.dense == expected.dense
    assert found.rows == expected.rows
    assert [one["pushes"] for one in counts] == [2 * NUM_STEPS] * 2


def test_the_connection_is_lost_between_backward_and_step() -> None:
    """What the old connection was sent is nothing to the new one."""

    def dense(*, is_lost: bool) -> dict[str, bytes]:
        with (
            serving(1) as servers,
            behind_proxies(servers, lambda _: lambda: None) as (proxy,),
            joined(servers.endpoints, model=deep(), strategy=strategy()) as one,
        ):
            for step in range(4):
                one.optimizer.zero_grad()
                backward(one, step)
                if is_lost:
                    proxy.cut_all()
                one.optimizer.step()
            one.fleet.stop_worker()
            assert servers.services[0].state.stats.counts()["pushes"] == 4
            return {name: value.detach().numpy().tobytes() for name, value in one.model.named_parameters()}

    assert dense(is_lost=True) == dense(is_lost=False)


def test_a_data_plane_that_ends_between_backward_and_step() -> None:
    """GRPC takes its place, which knows nothing of parts."""
    with serving(1) as servers, joined(servers.endpoints, model=deep(), strategy=strategy()) as one:
        for step in range(4):
            one.optimizer.zero_grad()
            backward(one, step)
            if step == 1:
                servers.served[0].stop_plane()
            one.optimizer.step()
        got = {name: value.detach().clone() for name, value in one.model.named_parameters() if value.numel()}
    with joined(model=deep(), strategy=strategy()) as alone:
        for step in range(4):
            habit(alone, step)
        for name, value in alone.model.named_parameters():
            if value.numel():
                assert got[name].equal(value), name
