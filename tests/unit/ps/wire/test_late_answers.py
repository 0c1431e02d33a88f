"""Answers that are late: what a thread has asked for before the servers were given another state."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.modes.async_mode import Async
from support.parity.training import LIMIT_S, joined, strategy

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Answer

pytestmark = pytest.mark.timeout(120)


def test_what_was_on_its_way_when_servers_loaded_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters that the independent thread asked for before are those of before."""
    given = strategy("async", independent_recv_thread=True)
    model = nn.Linear(2, 1)
    with joined(model=model, optimizer=lambda _: torch.optim.SGD(model.parameters(), lr=1.0), strategy=given) as one:
        saved = model.weight.detach().clone()
        one.fleet.save_persistables(tmp_path / "saved")
        call, is_asked, may_come, has_come = LocalTransport.call, *(threading.Event() for _ in range(3))

        def late(transport: LocalTransport, name: str, header: Any, tensors: Tensors, timeout_s: float) -> Answer:
            answer = call(transport, name, header, tensors, timeout_s)
            if threading.current_thread().name == "fleet-receive":
                is_asked.set()
                may_come.wait(LIMIT_S)
            return answer

        monkeypatch.setattr(LocalTransport, "call", late)
        model(torch.ones(1, 2)).sum().backward()
        one.optimizer.step()
        assert is_asked.wait(LIMIT_S)
        one.fleet.load_model(tmp_path / "saved")
        policy = one.worker.policy
        assert isinstance(policy, Async)
        sent = policy._sent.acquire

        def acquire() -> bool:
            has_come.set()  # the thread is back for more
            return sent()

        monkeypatch.setattr(policy._sent, "acquire", acquire)
        may_come.set()
        assert has_come.wait(LIMIT_S)
        one.fleet.flush()
        torch.testing.assert_close(model.weight.detach(), saved)
