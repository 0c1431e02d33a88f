"""A worker whose machine is lost, and the next one, too, while another one has a synchronous step done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleet.errors import CommunicationError
from fleet.ps.job.spec import JobSpec
from fleet.ps.worker.calling import step_norm
from support.processes import wait_until
from support.worker.two_servers import ADS, Servers, push_rows

LIMIT_S = 30.0
pytestmark = pytest.mark.timeout(120)


def test_a_step_is_done_with_pushes_of_the_same_lives_on_all_servers(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server 0 has said the norm of a push that is withdrawn, server 1 that of the push in its place."""
    servers = made(JobSpec(2, 2, "sync", tables=(ADS,)))
    told: list[int] = []
    for number, service in enumerate(servers.services):
        service.core.term = 1  # as where servers have copies: pushes are kept, and a step is done in two rounds

        def handle(method: str, *more: Any, number: int = number, real: Any = service.handle) -> Any:
            answer = real(method, *more)
            told.extend([number] if method == "Norm" else [])
            return answer

        monkeypatch.setattr(service, "handle", handle)

    def push_without(cut: int) -> None:
        """A new life of worker 0 pushes, and its machine burns; it has not reached one of the servers."""
        lost = servers.life(0)
        servers.is_away = lambda number, method: (number, method) == (cut, "Push")
        with pytest.raises(CommunicationError, match="killed"):
            push_rows(lost.client, 0, range(8), shows=True).results()
        servers.is_away = lambda _, __: False
        shutil.rmtree(servers.folder / "worker-0")

    other = servers.life(1)
    pushed = push_rows(other.client, 0, range(8), shows=True)
    pushed.results()
    push_without(1)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(step_norm.settle, other.client, 0, pushed)
        wait_until(lambda: told == [0], LIMIT_S, "the first norm of server 0")
        push_without(0)
        wait_until(lambda: 1 in told, LIMIT_S, "the norm of server 1")
        push_rows(servers.life(0).client, 0, range(8), shows=True).results()
        settled.result(LIMIT_S)
    assert servers.versions == [1, 1]
    assert servers.shows() == {16.0}
