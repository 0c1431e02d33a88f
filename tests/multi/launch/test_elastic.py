"""Jobs that are started again: after a failure, without a machine that is gone, with one that has come.

Real fleetruns with scripts that import no torch: several at one meeting point on loopback, and on hosts of their own
(network namespaces), where the death of a machine is the death of all its processes.
"""

from __future__ import annotations

import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.net import Endpoint, Hold
from support.hosts import Host, hosts_at_a_switch, why_not
from support.jobs import LIMIT_S, RunningJob, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

# Says who it is in a file, then does what the test wants: a file named after the attempt and the worker tells.
WORKER = """
    import os, signal, sys, time
    rank, world, restart = (os.environ[name] for name in ("RANK", "WORLD_SIZE", "FLEET_RESTART"))
    path = f"attempt{restart}.{rank}"
    with open(path + ".part", "w") as file:
        print(os.getpid(), world, os.environ["GROUP_WORLD_SIZE"], os.environ["PADDLE_TRAINER_ENDPOINTS"], file=file)
    os.rename(path + ".part", path)
    print("attempt", restart, "worker", rank, "of", world)
    wanted = os.environ["TEST_PLAN"].split(",")
    if f"fail{restart}.{rank}" in wanted:
        sys.exit(7)
    if f"wait{restart}" in wanted:
        signal.pause()
"""


# A fleetrun without the seconds of grace that machines give each other: for jobs in which all goes in the order of the
# test, so that nobody can come, or fail, a little later.
HASTY = """
from fleet.launch import cli
from fleet.launch.meet import host
from fleet.launch.run import watch
host.LAST_CALL_S = watch.HEARSAY_S = 0.3
cli.main()
"""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.jobs.FLEETRUN", (sys.executable, "-c", HASTY))


class Jobs:
    """Fleetruns of one job, each in a folder of its own."""

    def __init__(self, stack: ExitStack, folder: Path, plan: str, arguments: list[object], token: str = "") -> None:
        self._stack = stack
        self._folder = folder
        self._environ = {"TEST_PLAN": plan, "FLEET_INIT_TIMEOUT_S": "120", "FLEET_JOB_TOKEN": token}
        self._arguments = [*arguments, "--device", "cpu", script(folder, textwrap.dedent(WORKER))]
        self._count = 0

    def start(self, host: Host | None = None, *more: object) -> RunningJob:
        cwd = self._folder / f"machine{self._count}"
        self._count += 1
        cwd.mkdir(exist_ok=True)
        prefix = () if host is None else host.prefix
        return self._stack.enter_context(RunningJob([*more, *self._arguments], cwd, self._environ, prefix))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def point() -> Iterator[Endpoint]:
    """A port for the meeting that nobody else can take."""
    with Hold.any_port(plain=True) as hold:
        yield hold.endpoint


def listens(point: Endpoint) -> None:
    """Wait for the host, so that who is started next is a guest."""
    path = Path("/proc/net/tcp")
    wait_until(lambda: f":{point.port:04X} 00000000:0000 0A" in path.read_text(), LIMIT_S, "the meeting point")


@pytest.mark.usefixtures("hasty")
def test_a_worker_fails_on_one_machine_and_both_start_again(stack: ExitStack, tmp_path: Path, point: Endpoint) -> None:
    arguments = ["--master", point, "--nnodes", 2, "--nproc_per_node", 2, "--max_restart", 1]
    jobs = Jobs(stack, tmp_path, "fail0.3,wait0", arguments, token="open-sesame")
    first = jobs.start()
    listens(point)
    second = jobs.start()
    results = [job.finish() for job in (first, second)]
    assert [result.code for result in results] == [0, 0], results
    for result in results:
        assert "restarting the job, attempt 1 of 1, with 2 machines" in result.err
    assert "the job failed on another machine: worker 3 failed: exit code 7 on 127.0.0.1" in results[0].err
    assert "error: worker 3 failed: exit code 7" in results[1].err
    assert results[0].out == "attempt 0 worker 0 of 4\nattempt 1 worker 0 of 4\n"
    assert results[1].out == "attempt 0 worker 2 of 4\nattempt 1 worker 2 of 4\n"
    log = (second.cwd / "log/workerlog.3").read_text()
    assert log == "attempt 0 worker 3 of 4\nattempt 1 worker 3 of 4\n"
    endpoints = [first.read(f"attempt{attempt}.0").split()[-1] for attempt in (0, 1)]
    assert endpoints[0] != endpoints[1]
    assert endpoints[1] == second.read("attempt1.2").split()[-1]


@pytest.mark.usefixtures("hasty")
def test_restarts_are_counted_for_the_job_and_used_up_on_every_machine(
    stack: ExitStack, tmp_path: Path, point: Endpoint
) -> None:
    """Each machine fails once, which is once too often."""
    arguments = ["--master", point, "--nnodes", 2, "--nproc_per_node", 1, "--max_restart", 1]
    jobs = Jobs(stack, tmp_path, "fail0.0,wait0,fail1.1,wait1", arguments)
    first = jobs.start()
    listens(point)
    second = jobs.start()
    results = [job.finish() for job in (first, second)]
    assert [result.code for result in results] == [7, 7], results
    for result in results:
        assert "attempt 1 of 1" in result.err
        assert "the job has failed 2 times and --max_restart is 1: worker 1 failed: exit code 7" in result.err
    assert "the job failed on another machine: worker 0 failed: exit code 7" in results[1].err
    assert "the job failed on another machine: worker 1 failed: exit code 7" in results[0].err


@pytest.mark.usefixtures("hasty")
def test_a_machine_comes_late_is_killed_and_comes_again(stack: ExitStack, tmp_path: Path, point: Endpoint) -> None:
    """One machine, then two, then one (a failure), then two again; a user's signal to one ends it on both.

    The third finds a log of an older job in its folder.
    """
    arguments = ["--master", point, "--nnodes", "1:2", "--nproc_per_node", 1, "--max_restart", 1]
    jobs = Jobs(stack, tmp_path, "wait0,wait1,wait2,wait3", arguments)
    first = jobs.start()
    assert first.read("attempt0.0").split()[1:3] == ["1", "1"]
    second = jobs.start()
    assert second.read("attempt1.1").split()[1:3] == ["2", "2"]
    assert first.read("attempt1.0").split()[1:3] == ["2", "2"]
    second.send(signal.SIGKILL)
    assert first.read("attempt2.0").split()[1:3] == ["1", "1"]
    old_log = tmp_path / "machine2/log/workerlog.1"
    old_log.parent.mkdir(parents=True)
    old_log.write_text("of an older job\n")
    third = jobs.start()
    assert third.read("attempt3.1").split()[1:3] == ["2", "2"]
    first.read("attempt3.0")
    third.send(signal.SIGTERM)
    results = [job.finish() for job in (first, third)]
    assert [result.code for result in results] == [143, 143], results
    assert "fleetrun was stopped by SIGTERM on 127.0.0.1" in results[0].err
    assert "machine 1 (127.0.0.1) is gone" in results[0].err
    assert "restarting the job, attempt 1 of 1, with 1 machine\n" in results[0].err
    again = "a machine has come (127.0.0.1): starting the job again with 2 machines; this is no failure"
    assert results[0].err.count(again) == 2
    assert "is running; this machine waits until it starts again" in results[1].err
    assert "joined a running job, starting 1 worker on cpu, machine 1 of 2; logs in log" in results[1].err
    assert old_log.read_text() == "attempt 3 worker 1 of 2\n"


REASON = why_not()


@pytest.mark.netns
@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_three_hosts_lose_one_and_go_on(stack: ExitStack, tmp_path: Path) -> None:
    """Host 1 dies for good, host 2 moves up; then the meeting point dies, and with it the job."""
    hosts = stack.enter_context(hosts_at_a_switch(3))
    arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", "2:3", "--nproc_per_node", 1, "--max_restart", 3]
    jobs = Jobs(stack, tmp_path, "wait0,wait1", arguments)
    # The meeting point last: on a busy machine the last call must not end before the others have started.
    machines = [jobs.start(hosts[rank], "--rank", rank) for rank in (2, 1, 0)][::-1]
    for rank, machine in enumerate(machines):
        assert machine.read(f"attempt0.{rank}").split()[1:3] == ["3", "3"]
    machines[1].send(signal.SIGKILL)
    endpoints = []
    for rank, machine in enumerate((machines[0], machines[2])):
        _, world, num_nodes, listed = machine.read(f"attempt1.{rank}").split()
        assert (world, num_nodes) == ("2", "2")
        endpoints.append(listed)
    assert endpoints[0] == endpoints[1]
    assert [endpoint.split(":")[0] for endpoint in endpoints[0].split(",")] == [hosts[0].address, hosts[2].address]
    machines[0].send(signal.SIGKILL)
    result = machines[2].finish()
    assert result.code == 1
    assert f"machine 0 ({hosts[0].address}) is gone" in result.err
    assert f"the meeting at {hosts[0].address}:6000 ended: machine 0 ({hosts[0].address}) is gone" in result.err


@pytest.mark.netns
@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_named_machines_start_again_on_the_same_ports_and_wait_for_one_that_is_gone(
    stack: ExitStack, tmp_path: Path
) -> None:
    """Machine 1 is killed; a new fleetrun there takes its place, and then all is well."""
    hosts = stack.enter_context(hosts_at_a_switch(2))
    arguments = ["--ips", ",".join(host.address for host in hosts), "--nproc_per_node", 1, "--max_restart", 1]
    jobs = Jobs(stack, tmp_path, "wait0", arguments)
    first, second = (jobs.start(host) for host in hosts)
    before = first.read("attempt0.0").split()[-1]
    second.read("attempt0.1")
    second.send(signal.SIGKILL)
    second.finish()
    third = jobs.start(hosts[1])
    assert third.read("attempt1.1").split()[-1] == before
    results = [job.finish() for job in (first, third)]
    assert [result.code for result in results] == [0, 0], results
    assert f"machine 1 ({hosts[1].address}) is gone" in results[0].err
    assert "restarting the job, attempt 1 of 1, with 2 machines" in results[0].err
