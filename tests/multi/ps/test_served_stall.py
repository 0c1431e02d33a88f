"""Jobs with servers that hang, for real: the report says who waits for whom, with the line of the late one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, Result, RunningJob, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

STALL_S = 2
ENDED = "the job ends with exit code 124; FLEET_STALL_TIMEOUT_S says how long a wait for others may take (now 2)"

HEAD = """
    import os, sys, time
    import torch
    from torch import nn
    import fleet

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = {a_sync}
    fleet.init(strategy=strategy)
    if fleet.is_server():
        with open(f"pid.server.{{fleet.server_index()}}", "w") as file:
            file.write(f"{{os.getpid()}}\\n")
        sys.exit(fleet.run_server())
    me = fleet.worker_index()
    with open(f"pid.{{me}}", "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    model = fleet.distributed_model(nn.Sequential(fleet.nn.Embedding(4, "ads"), nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def step():
        optimizer.zero_grad()
        model(torch.arange(4)).sum().backward()
        optimizer.step()

    def next_batch():
        time.sleep(600)

"""


def job(folder: Path, body: str, *more: str, a_sync: bool = False, environ: dict[str, str] | None = None) -> RunningJob:
    """A job of two servers and two workers."""
    folder.mkdir(exist_ok=True)
    train = script(folder, HEAD.format(a_sync=a_sync) + body)
    limits = {"FLEET_STALL_TIMEOUT_S": str(STALL_S), "FLEET_WAIT_NOTICE_S": "1", **(environ or {})}
    return RunningJob(["--server_num", 2, "--worker_num", 2, *more, train], folder, limits, warm=True)


def logs(folder: Path, names: Sequence[str] = ("workerlog.0", "workerlog.1")) -> list[str]:
    return [(folder / "log" / name).read_text() for name in names]


def stalled(running: RunningJob) -> Result:
    result = running.finish()
    assert result.code == 124, result.err + result.out
    return result


def test_a_worker_that_sleeps_in_its_script_is_named_with_its_line_by_all(tmp_path: Path) -> None:
    body = """
    fleet.init_worker()
    step()
    step()
    if me == 1:
        next_batch()
    step()
"""
    with job(tmp_path, body) as running:
        result = stalled(running)
    asleep = r"train.py:\d+ in next_batch: time.sleep\(600\)\n"
    for log in logs(tmp_path):
        assert re.search(r"worker 0 has waited \d+ s for the gradients of worker 1, step 2\n", log), log
        assert re.search(rf"worker 1 did not come: it finished step 1 \d+ s ago and is at {asleep}", log), log
        assert re.search(rf"stack of worker 1 \(pid \d+ on .*\):\n(  .*\n)*  /.*/{asleep}", log), log
        assert log.endswith(f"{ENDED}\n")
    assert ENDED in logs(tmp_path, ["serverlog.0"])[0]
    assert "worker 1 failed: exit code 124" in result.err
    assert f"| {ENDED}" in result.err


def test_a_stopped_worker_and_a_stopped_server_do_not_answer(tmp_path: Path) -> None:
    """Two jobs side by side, since most of their time is waiting.

    Nobody is within a step when it happens: a server that stops between its answers to two workers has one of them wait
    for the other, of which the report says then that it waits for a server that does not answer.
    """
    body = """
    fleet.init_worker()
    step()
    open(f"began.{me}", "w").close()
    while not os.path.exists("stopped"):
        time.sleep(0.01)
    while True:
        step()
"""
    with job(tmp_path / "worker", body) as one, job(tmp_path / "server", body) as other:
        for running, victim in ((one, "pid.1"), (other, "pid.server.1")):
            pid = int(running.read(victim))
            for worker in ("began.0", "began.1"):
                wait_until((running.cwd / worker).exists, LIMIT_S, "the first steps")
            os.kill(pid, signal.SIGSTOP)
            (running.cwd / "stopped").touch()
        told = [r"worker 1 \(pid \d+ on \S+\)", r"server 127\.0\.0\.1:\d+"]
        for running, victim, words in ((one, "pid.1", told[0]), (other, "pid.server.1", told[1])):
            wait_until(lambda running=running: ENDED in logs(running.cwd)[0], LIMIT_S, "the report")  # type: ignore[misc]
            with contextlib.suppress(ProcessLookupError):  # killed already: it has not heard its SIGTERM
                os.kill(int(running.read(victim)), signal.SIGCONT)
            assert re.search(rf"\n{words} does not answer: its process is stopped", logs(running.cwd)[0])
            stalled(running)
    assert re.search(r"has waited \d+ s for the gradients of worker 1, step \d+\n", logs(tmp_path / "worker")[0])
    assert re.search(r"has waited \d+ s for server \S+ to answer (Pull|Push)\n", logs(tmp_path / "server")[0])


@pytest.mark.exhaustive
def test_a_worker_that_does_not_come_to_a_barrier_of_an_async_job_is_named_once_it_makes_no_steps(
    tmp_path: Path,
) -> None:
    """Worker 1 makes steps for longer than others may wait: that is no stall. Then it sleeps before the barrier."""
    body = f"""
    fleet.init_worker()
    until = time.monotonic() + {1.5 * STALL_S}
    while me == 1 and time.monotonic() < until:
        step()
        time.sleep(0.05)
    if me == 1:
        print("has made its steps", flush=True)
        next_batch()
    fleet.barrier_worker()
"""
    with job(tmp_path, body, a_sync=True) as running:
        stalled(running)
    first, second = logs(tmp_path)
    for log in (first, second):
        assert re.search(r"worker 0 has waited \d+ s for worker 1 to come to .*\n", log), log
        assert re.search(r"worker 1 did not come: it finished step \d+ \d+ s ago and is at train.py:\d+ in next_b", log)
    assert second.index("has made its steps") < second.index("has stalled")


@pytest.mark.exhaustive
def test_a_worker_that_dies_and_comes_back_is_no_stall_but_one_that_sleeps_then_is(tmp_path: Path) -> None:
    """To be started again takes longer than others may wait."""
    body = """
    fleet.init_worker()
    while True:
        if me == 1 and fleet.steps_done() == 2 and not os.path.exists("dead"):
            open("dead", "w").close()
            os.kill(os.getpid(), 9)
        if me == 1 and fleet.steps_done() == 4:
            next_batch()
        step()
"""
    # Its next life needs seconds between joining and its first step where the machine is busy.
    with job(tmp_path, body, "--durable", "durable", environ={"FLEET_STALL_TIMEOUT_S": "5"}) as running:
        result = stalled(running)
    assert result.err.count("started again in its place") == 1, result.err
    assert "worker 1 failed: exit code 124" in result.err
    for log in logs(tmp_path):
        assert log.count("has stalled") == 1, log
        assert re.search(
            r"worker 1 did not come: it finished step 3 \d+ s ago and is at train.py:\d+ in next_batch", log
        )
