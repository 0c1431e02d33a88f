"""A network that breaks for a while, processes that stand still for a while: the job goes on by itself, nothing lost.

Two machines (network namespaces at a switch) with a fleetrun each: the servers on the first, a worker on both.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hosts import Network, switched_network, why_not
from support.jobs import Result, RunningJob, fleetrun, script
from support.sweeps import sweep

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(400),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]

LONG_S, SHORT_S = 20.0, 3.0
MODES = ("sync", "async", "half", "geo")
ROLES = ("server.0", "worker.0", "worker.1", "launcher.0", "launcher.1")
NUM_STEPS = 40

# Training that takes a moment at each step, and in the end says what the model has become and what servers counted.
TRAIN = """
    import hashlib, os, sys, time
    import torch
    import fleet

    mode, steps = os.environ["TEST_MODE"], int(os.environ["TEST_STEPS"])
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "half":
        strategy.a_sync_configs.half_async = True
    if mode == "geo":
        strategy.a_sync_configs.k_steps = 1
    fleet.init(strategy=strategy)
    torch.manual_seed(0)
    embedding = fleet.nn.Embedding(4, "ads", rule=fleet.rules.Adagrad(0.1))
    model = fleet.distributed_model(torch.nn.Sequential(embedding, torch.nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters()))
    who = f"server.{fleet.server_index()}" if fleet.is_server() else f"worker.{fleet.worker_index()}"

    def say_pid():
        with open(who + ".part", "w") as file:
            file.write(f"{os.getpid()}\\n")
        os.rename(file.name, who)

    if fleet.is_server():
        say_pid()
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    for step in range(steps):
        ids = torch.arange(8) + step + 100 * fleet.worker_index()
        optimizer.zero_grad()
        model(ids).square().mean().backward()
        optimizer.step()
        if step == 3:
            say_pid()
        time.sleep(0.05)
    fleet.flush()
    fleet.barrier_worker()
    stats = fleet.server_stats()
    print("pushes", *(each["pushes"] for each in stats))
    model.eval()
    with torch.no_grad():
        values = model(torch.arange(200)).numpy().tobytes()
    print("model", hashlib.sha256(values).hexdigest(), flush=True)
    fleet.barrier_worker()
    fleet.stop_worker()
"""

# Without torch, and without an end.
WAIT = """
    import os, signal
    who = "server" if os.environ["TRAINING_ROLE"] == "PSERVER" else f"worker.{os.environ['PADDLE_TRAINER_ID']}"
    with open(who, "w") as file:
        file.write(f"{os.getpid()}\\n")
    signal.pause()
"""

# In the short versions launchers notice and tell sooner that a machine cannot be reached.
HASTY = """
from fleet.launch import cli
from fleet.launch.meet import guest, link
guest.SUSPECT_S = link.SUSPECT_S = 1.5
cli.main()
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with switched_network(2) as network:
        yield network


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """What the same job says in a mode when nothing happens to it."""
    said: dict[str, list[str]] = {}

    def of(mode: str) -> list[str]:
        if mode not in said:
            cwd = tmp_path_factory.mktemp("undisturbed")
            environ = {"TEST_MODE": mode, "TEST_STEPS": str(NUM_STEPS)}
            job = fleetrun(
                "--server_num", 2, "--worker_num", 2, script(cwd, TRAIN), cwd=cwd, environ=environ, warm=True
            )
            assert job.code == 0, job.err
            said[mode] = job.out.splitlines()
        return said[mode]

    return of


class Pair:
    """The job on both machines."""

    def __init__(
        self, stack: ExitStack, network: Network, folder: Path, mode: str = "sync", train: str = TRAIN, **environ: str
    ) -> None:
        first, second = (host.address for host in network.hosts)
        arguments = ["--servers", f"{first}:6170,{first}:6171", "--workers", f"{first},{second}", script(folder, train)]
        variables = {"TEST_MODE": mode, "TEST_STEPS": str(NUM_STEPS), "FLEET_INIT_TIMEOUT_S": "120", **environ}
        self.jobs: list[RunningJob] = []
        for number, host in enumerate(network.hosts):
            cwd = folder / f"host{number}"
            cwd.mkdir()
            self.jobs.append(stack.enter_context(RunningJob(arguments, cwd, variables, host.prefix, warm=True)))

    def pid(self, who: str) -> int:
        """A process, or its launcher, once both workers train."""
        for number in range(2):
            self.jobs[number].read(f"worker.{number}")
        job = self.jobs[0 if who.startswith("server") else int(who[-1])]
        return job.pid if who.startswith("launcher") else int(job.read(who))

    def finish(self) -> list[Result]:
        results = [job.finish() for job in self.jobs]
        assert [result.code for result in results] == [0, 0], results
        return results


def same(results: list[Result], expected: list[str], mode: str) -> None:
    """Every push was applied once; where that is exact, to the same model."""
    for result in results:
        told = result.out.splitlines()[-2:]  # torch may warn above it that a test host has no name
        assert told[0] == expected[0]
        if mode == "sync":
            assert told[1] == expected[1]


def says_what_the_network_did(network: Network, results: list[Result]) -> None:
    """Both machines have told when it broke and when it was back."""
    first, second = (result.err for result in results)
    assert f"machine 1 ({network.hosts[1].address}) cannot be reached; waiting for it for up to 60 s" in first
    assert f"machine 1 ({network.hosts[1].address}) can be reached again, after " in first
    meeting = f"the meeting point {network.hosts[0].address}:6069"
    assert f"{meeting} cannot be reached; trying for up to 60 s (FLEET_RPC_TIMEOUT_S)" in second
    assert f"{meeting} can be reached again, after " in second


def test_a_broken_network_and_processes_that_stand_still(
    network: Network,
    undisturbed: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it in one job, a moment each."""
    expected = undisturbed("sync")
    monkeypatch.setattr("support.jobs.FLEETRUN", (sys.executable, "-c", HASTY))
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path)
        pids = [pair.pid(who) for who in ROLES]
        with network.without(1, "silence"):
            time.sleep(SHORT_S)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            time.sleep(0.2)
            os.kill(pid, signal.SIGCONT)
        results = pair.finish()
    same(results, expected, "sync")
    says_what_the_network_did(network, results)


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["silence", "cable"])
@pytest.mark.parametrize("mode", MODES)
def test_a_network_that_is_broken_for_20_s(
    network: Network, undisturbed: Callable[[str], list[str]], tmp_path: Path, mode: str, how: str
) -> None:
    expected = undisturbed(mode)
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path, mode)
        pair.pid("worker.1")
        with network.without(1, how):
            time.sleep(LONG_S)
        restored = time.monotonic()
        results = pair.finish()
    print(f"{mode}, {how}: ended {time.monotonic() - restored:.1f} s after the network was back")
    same(results, expected, mode)
    says_what_the_network_did(network, results)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("mode", "who"),
    [*(("sync", who) for who in ROLES), *((mode, who) for mode in MODES[1:] for who in ("server.0", "worker.1"))],
)
def test_a_process_that_stands_still_for_20_s(
    network: Network, undisturbed: Callable[[str], list[str]], tmp_path: Path, mode: str, who: str
) -> None:
    expected = undisturbed(mode)
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path, mode)
        pid = pair.pid(who)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(LONG_S)
        os.kill(pid, signal.SIGCONT)
        restored = time.monotonic()
        results = pair.finish()
    print(f"{mode}, {who}: ended {time.monotonic() - restored:.1f} s after it went on")
    same(results, expected, mode)


@pytest.mark.parametrize("culprit", sweep((0, 1), sample=lambda culprit: culprit == 1))
def test_what_fails_while_the_network_is_broken_is_named_on_both_machines(
    network: Network, tmp_path: Path, culprit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher of the machine that failed stays until the other one has heard it."""
    monkeypatch.setattr("support.jobs.FLEETRUN", (sys.executable, "-c", HASTY))
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path, train=WAIT)
        pid = pair.pid(f"worker.{culprit}")
        with network.without(1, "silence"):
            os.kill(pid, signal.SIGKILL)
            assert not pair.jobs[culprit].ends_within(SHORT_S)
        results = [job.finish() for job in pair.jobs]
    assert [result.code for result in results] == [137, 137], results
    failed = f"worker {culprit} failed: signal SIGKILL"
    assert failed in results[culprit].err
    assert f"the job failed on another machine: {failed}" in results[1 - culprit].err


@pytest.mark.exhaustive
def test_a_network_that_stays_broken_ends_the_job_on_both_machines(network: Network, tmp_path: Path) -> None:
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path, train=WAIT, FLEET_RPC_TIMEOUT_S="5")
        pair.pid("worker.1")
        with network.without(1, "silence"):
            results = [job.finish() for job in pair.jobs]
    assert [result.code for result in results] == [1, 1], results
    for number, result in enumerate(results):
        peer = f"machine {1 - number} ({network.hosts[1 - number].address})"
        assert f"{peer} is gone: it could not be reached for 5 s (FLEET_RPC_TIMEOUT_S)" in result.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_launcher_that_is_killed_is_not_waited_for(network: Network, tmp_path: Path, victim: int) -> None:
    with ExitStack() as stack:
        pair = Pair(stack, network, tmp_path, train=WAIT, FLEET_RPC_TIMEOUT_S="600")
        pair.pid("worker.1")
        pair.jobs[victim].send(signal.SIGKILL)
        began = time.monotonic()
        survivor = pair.jobs[1 - victim].finish(limit_s=60)
        took_s = time.monotonic() - began
    print(f"launcher {victim} was killed: the other ended after {took_s:.2f} s")
    assert survivor.code == 1
    assert f"machine {victim} ({network.hosts[victim].address}) is gone: its fleetrun ended" in survivor.err
