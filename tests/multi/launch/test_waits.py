"""fleetrun says who waits for whom, and for what, in jobs with servers and without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)

HEAD = """
    import re, sys, time
    import torch, torch.distributed as dist
    from torch import nn
    import fleet

    def until_said(who, words):
        until = time.monotonic() + 30
        while not re.search(f"worker {who} .*{words}", open(f"log/workerlog.{who}").read()):
            assert time.monotonic() < until, words
            time.sleep(0.02)
"""

START = f"""{HEAD}
    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
    me = fleet.worker_index()
    model = fleet.distributed_model(nn.Sequential(fleet.nn.Embedding(4, "ads"), nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
"""

SERVERS = f"""{START}    if me == 0:
        until_said(1, "waits for worker 0 to come to the first call")
    fleet.barrier_worker()
    if me == 1:
        until_said(0, "waits for worker 1 to come to all_reduce|all_gather")
    fleet.util.all_reduce(1)
    if me == 0:
        until_said(1, "waits for worker 0 to send the first values")
    fleet.init_worker()
    for step in range(3):
        if me == 1 and step == 1:
            until_said(0, "waits for the gradients of worker 1, step 1")
        if me == 0 and step == 2:
            until_said(1, "waits for the gradients of worker 0, step 2")
        optimizer.zero_grad()
        model(torch.arange(4)).sum().backward()
        optimizer.step()
    if me == 0:
        until_said(1, "waits for worker 0 to come to fleet.save_persistables")
    fleet.save_persistables("saved")
    if me == 0:
        until_said(1, "waits for worker 0 to come to a barrier, in fleet.load_model")
    fleet.load_model("saved")
    if me == 1:
        until_said(0, "waits for worker 1 to come to fleet.util.all_reduce")
    fleet.util.all_reduce(1)
    fleet.stop_worker()
"""


def test_every_kind_of_wait_in_a_job_with_servers(tmp_path: Path) -> None:
    train = script(tmp_path, SERVERS)
    environ = {"FLEET_WAIT_NOTICE_S": "0.4"}
    result = fleetrun("--server_num", 1, "--worker_num", 2, train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 0, result.err
    own = [
        r"worker 0 waits for the gradients of worker 1, step 1; \d s so far$",
        r"worker 0 waits for worker 1 to come to all_(reduce|gather) of the worker world; \d s so far$",
    ]
    for pattern in own:
        assert re.search(pattern, result.out, re.MULTILINE), result.out
    assert "[W" not in result.out  # torch's own chatter about a wait that was cut short
    assert "worker 0 waits" not in result.err


LOOKED_AT = f"""{START}    fleet.init_worker()
    if me == 0:
        until_said(1, "waits for the gradients of worker 0, step 0; ([3-9]|1.) s")
    model(torch.arange(4)).sum().backward()
    optimizer.step()
    fleet.stop_worker()
"""


def test_the_launcher_speaks_for_workers_that_its_terminal_does_not_show(tmp_path: Path) -> None:
    train = script(tmp_path, LOOKED_AT)
    environ = {"FLEET_WAIT_NOTICE_S": "0.4"}
    result = fleetrun("--server_num", 1, "--worker_num", 3, train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 0, result.err
    assert re.search(r"workers 1 and 2 wait for the gradients of worker 0, step 0; \d s so far", result.err), result.err
    assert "waits for the gradients" not in result.out


COLLECTIVE = f"""{HEAD}
    fleet.init(is_collective=True)
    if fleet.worker_index() == 0:
        until_said(1, "has waited [3-9] s in all_reduce #1")
    dist.all_reduce(torch.ones(4))
"""


@pytest.mark.exhaustive
def test_a_collective_job_is_spoken_for_too(tmp_path: Path) -> None:
    train = script(tmp_path, COLLECTIVE)
    environ = {"FLEET_WAIT_NOTICE_S": "1"}
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 0, result.err
    pattern = (
        r"worker 1 waits for worker 0 to come to all_reduce #1 \(4 float32\) of the default group, at train.py:\d+"
    )
    assert re.search(pattern, result.err), result.err
