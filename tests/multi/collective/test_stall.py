"""Collectives that hang, in real jobs: the report says who did not come, and the job ends."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, Result, RunningJob
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

ENDED = "the job ends with exit code 124; FLEET_STALL_TIMEOUT_S says how long a collective may take (now 1)"


def job(folder: Path, body: str, timeout_s: float = 1) -> RunningJob:
    """A job of two workers that have had three collectives before `body`; `x` is a tensor for more of them.

    The time limit is for what comes then: a busy machine may need longer to start. `watch` is the stall watch.
    """
    head = """
import os, time
import torch, torch.distributed as dist
import fleet
import fleet.collective.stall.watch
fleet.init(is_collective=True)
watch = fleet.collective.stall.watch.StallWatch.running()
me, x = fleet.worker_index(), torch.ones(4, 8)
for _ in range(3):
    dist.all_reduce(x)
watch._timeout_s = float(os.environ["TEST_LIMIT_S"])
with open(f"pid.{me}", "w") as file:
    file.write(f"{os.getpid()}\\n")
"""
    train = folder / "train.py"
    train.write_text(head + body)
    arguments = ["--nproc_per_node", 2, "--device", "cpu", train]
    environ = {"FLEET_STALL_TIMEOUT_S": "5", "FLEET_WAIT_NOTICE_S": "1", "TEST_LIMIT_S": str(timeout_s)}
    return RunningJob(arguments, folder, environ, warm=True)


def logs(folder: Path) -> list[str]:
    return [(folder / f"log/workerlog.{index}").read_text() for index in range(2)]


def has_reported(folder: Path, worker: int) -> bool:
    return ENDED in logs(folder)[worker]


def ran_into_a_stall(running: RunningJob) -> Result:
    result = running.finish()
    assert result.code == 124, result.err
    return result


def test_a_worker_asleep_is_named_with_its_line_by_every_worker(tmp_path: Path) -> None:
    body = """
def load_next_batch():
    time.sleep(60)

if me == 1:
    load_next_batch()
dist.all_reduce(x)
"""
    with job(tmp_path, body) as running:
        result = ran_into_a_stall(running)
    asleep = "in load_next_batch: time.sleep(60)"
    for log in logs(tmp_path):
        assert "worker 0 has waited 1 s in all_reduce #4 (4x8 float32) of the default group for worker 1\n" in log
        assert "worker 1 did not come: it finished all_reduce #3 (4x8 float32)" in log
        assert f"s ago and is at train.py:16 {asleep}\n" in log
        assert f"  {tmp_path}/train.py:16 {asleep}\n" in log
        assert log.endswith(f"{ENDED}\n")
    assert "worker 1 failed: exit code 124" in result.err
    assert f"| {ENDED}" in result.err


def test_workers_that_call_different_operations_are_named(tmp_path: Path) -> None:
    body = """
if me == 0:
    dist.all_reduce(x)
else:
    dist.all_gather([x, x], x.clone())
"""
    with job(tmp_path, body) as running:
        ran_into_a_stall(running)
    for log in logs(tmp_path):
        assert "called different operations" in log
        assert "  worker 0: all_reduce #4 (4x8 float32) at train.py:16 in <module>: dist.all_reduce(x)\n" in log
        assert "  worker 1: all_gather #4 (4x8 float32) at train.py:18 in <module>: dist.all_gather(" in log
        assert log.endswith(f"{ENDED}\n")


def test_a_stopped_process_does_not_answer(tmp_path: Path) -> None:
    """The host of the store, and the other one: two jobs side by side, since most of their time is waiting."""
    with ExitStack() as stack:
        victims = {}
        for victim in (0, 1):
            body = f"""
watch._answer_s = watch._mailbox._limit_s = 1.0
while me == {victim}:
    time.sleep(0.1)
dist.all_reduce(x)
"""
            (tmp_path / str(victim)).mkdir()
            victims[victim] = stack.enter_context(job(tmp_path / str(victim), body))
        pids = {
            victim: [int(running.read(f"pid.{index}")) for index in range(2)] for victim, running in victims.items()
        }
        for victim in victims:
            os.kill(pids[victim][victim], signal.SIGSTOP)
        for victim, running in victims.items():
            wait_until(partial(has_reported, running.cwd, 1 - victim), LIMIT_S, "the report")
            os.kill(pids[victim][victim], signal.SIGCONT)  # or it cannot hear its SIGTERM
            ran_into_a_stall(running)
    for victim, running in victims.items():
        log = logs(running.cwd)[1 - victim]
        assert f"worker {1 - victim} has waited 1 s in all_reduce #4 (4x8 float32) of the default group" in log
        words = "worker 0, where all meet, does not answer" if victim == 0 else f"worker 1 (pid {pids[1][1]} on "
        assert words in log
        assert "does not answer" in log
        assert log.endswith(f"{ENDED}\n")
        assert "recvValue" not in log  # the store's page of C++ frames


def test_a_worker_that_is_only_late_gets_a_notice(tmp_path: Path) -> None:
    body = """
while me == 1 and "has waited" not in open("log/workerlog.0").read():
    time.sleep(0.1)
dist.all_reduce(x)
print("came")
"""
    with job(tmp_path, body, timeout_s=60) as running:
        result = running.finish()
    assert result.code == 0, result.err
    first, second = logs(tmp_path)
    assert first.count("has waited") == 1
    assert " s in all_reduce #4 (4x8 float32) of the default group for worker 1, at train.py:" in first
    assert first.endswith("after 60 s the job ends (FLEET_STALL_TIMEOUT_S)\ncame\n")
    assert second == "came\n"


def test_a_worker_killed_in_a_step_ends_the_job_at_once(tmp_path: Path) -> None:
    body = """
while me == 1:
    time.sleep(0.1)
dist.all_reduce(x)
"""
    with job(tmp_path, body, timeout_s=600) as running:
        pids = [int(running.read(f"pid.{index}")) for index in range(2)]
        os.kill(pids[1], signal.SIGKILL)
        result = running.finish()
    assert result.code == 137
    assert "worker 1 failed: signal SIGKILL (9), exit code 137" in result.err
