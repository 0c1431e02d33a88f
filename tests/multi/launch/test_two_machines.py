"""Jobs over two machines, each a network namespace with its own address and its own fleetrun."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hosts import Host, hosts_with_two_cables, two_hosts, why_not
from support.jobs import Result, RunningJob, script

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(300),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]

ALL_REDUCE = """
    import torch, torch.distributed as dist
    import fleet
    fleet.init(is_collective=True)
    total = torch.tensor([float(fleet.worker_index() + 1)])
    dist.all_reduce(total)
    place = (fleet.worker_index(), fleet.worker_num(), fleet.node_num(), fleet.local_rank())
    print(*place, total.item(), *fleet.worker_endpoints())
"""
WAITING = """
    import os, signal
    with open(f"worker.{os.environ['PADDLE_TRAINER_ID']}", "w") as file:
        file.write(f"{os.getpid()}\\n")
    signal.pause()
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as pair:
        yield pair


def last_line(result: Result) -> str:
    """What the script printed; torch may warn above it that a test host has no name."""
    return result.out.splitlines()[-1]


class Pair:
    """The same job started on both hosts, each in a folder of its own."""

    def __init__(
        self,
        stack: ExitStack,
        hosts: Sequence[Host],
        folder: Path,
        arguments: Sequence[Sequence[object]],
        tokens: Sequence[str] = ("", ""),
    ) -> None:
        self.jobs = []
        for number, (host, own, token) in enumerate(zip(hosts, arguments, tokens, strict=True)):
            cwd = folder / f"host{number}"
            cwd.mkdir()
            environ = {"FLEET_INIT_TIMEOUT_S": "120", "FLEET_JOB_TOKEN": token}
            self.jobs.append(stack.enter_context(RunningJob(own, cwd, environ, host.prefix, warm=True)))

    def finish(self) -> list[Result]:
        return [job.finish() for job in self.jobs]


def test_an_all_reduce_across_machines_named_by_ips(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    ips = ",".join(host.address for host in hosts)
    arguments = ["--ips", ips, "--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE)]
    with ExitStack() as stack:
        results = Pair(stack, hosts, tmp_path, [arguments, arguments]).finish()
    assert [result.code for result in results] == [0, 0], results
    endpoints = " ".join(f"{host.address}:{port}" for host in hosts for port in (6070, 6071))
    assert last_line(results[0]) == f"0 4 2 0 10.0 {endpoints}"
    assert last_line(results[1]) == f"2 4 2 0 10.0 {endpoints}"


def test_machines_that_meet_at_a_master(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    train = script(tmp_path, ALL_REDUCE)
    common = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--device", "cpu"]
    with ExitStack() as stack:  # different numbers of workers, ranks by arrival
        first, second = Pair(
            stack, hosts, tmp_path, [[*common, "--nproc_per_node", 1, train], [*common, "--nproc_per_node", 2, train]]
        ).finish()
    assert (first.code, second.code) == (0, 0), (first.err, second.err)
    assert last_line(first).startswith("0 3 2 0 6.0 ")
    assert last_line(second).startswith("1 3 2 0 6.0 ")
    assert [last_line(first).count(host.address) for host in hosts] == [1, 2]


def test_servers_on_one_machine_and_workers_on_the_other(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import signal, fleet
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        fleet.init()
        total = fleet.util.all_reduce(1, comm_world="all")
        print(fleet.is_server(), fleet.server_num(), fleet.worker_num(), total)
        if fleet.is_server():
            signal.sigwait({signal.SIGTERM})
            print("told to stop")
        """,
    )
    servers = f"{hosts[0].address}:6170,{hosts[0].address}:6171"
    arguments = ["--servers", servers, "--workers", f"{hosts[1].address},{hosts[1].address}", train]
    with ExitStack() as stack:
        first, second = Pair(stack, hosts, tmp_path, [arguments, arguments]).finish()
    assert (first.code, second.code) == (0, 0), (first.err, second.err)
    assert first.out.endswith("True 2 2 4\ntold to stop\n")
    assert last_line(second) == "False 2 2 4"


def test_a_failure_on_one_machine_ends_the_other_and_is_named_there(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    ips = ",".join(host.address for host in hosts)
    arguments = ["--ips", ips, "--nproc_per_node", 1, "--device", "cpu", script(tmp_path, WAITING)]
    with ExitStack() as stack:
        pair = Pair(stack, hosts, tmp_path, [arguments, arguments])
        pair.jobs[0].read("worker.0")
        os.kill(int(pair.jobs[1].read("worker.1")), signal.SIGKILL)
        first, second = pair.finish()
    assert (first.code, second.code) == (137, 137)
    assert "worker 1 failed: signal SIGKILL" in second.err
    assert (
        f"the job failed on another machine: worker 1 failed: signal SIGKILL (9), exit code 137 on {hosts[1].address}"
        in first.err
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("culprit", [1, 2])
def test_both_machines_name_the_cause_though_all_workers_fail(
    hosts: tuple[Host, Host], tmp_path: Path, culprit: int
) -> None:
    """Everybody loses its peers within moments of the first failure."""
    train = script(
        tmp_path,
        f"""
        import torch, torch.distributed as dist
        import fleet
        fleet.init(is_collective=True)
        for step in range(1000):
            if step == 20 and fleet.worker_index() == {culprit}:
                raise ValueError("the cause")
            dist.all_reduce(torch.ones(1))
        """,
    )
    arguments = ["--ips", ",".join(host.address for host in hosts), "--nproc_per_node", 2, "--device", "cpu", train]
    with ExitStack() as stack:
        results = Pair(stack, hosts, tmp_path, [arguments, arguments]).finish()
    assert [result.code for result in results] == [1, 1]
    here, there = results if culprit < 2 else results[::-1]
    assert f"error: worker {culprit} failed: exit code 1" in here.err
    assert "| [rank" in here.err
    assert f"error: the job failed on another machine: worker {culprit} failed: exit code 1" in there.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_machine_that_is_gone_ends_the_other(hosts: tuple[Host, Host], tmp_path: Path, victim: int) -> None:
    ips = ",".join(host.address for host in hosts)
    arguments = ["--ips", ips, "--nproc_per_node", 1, "--device", "cpu", script(tmp_path, WAITING)]
    with ExitStack() as stack:
        pair = Pair(stack, hosts, tmp_path, [arguments, arguments])
        for number in range(2):
            pair.jobs[number].read(f"worker.{number}")
        pair.jobs[victim].send(signal.SIGKILL)
        results = pair.finish()
    survivor = results[1 - victim]
    assert survivor.code == 1
    assert f"machine {victim} ({hosts[victim].address}) is gone" in survivor.err


def test_machines_that_were_started_differently_are_told(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    ips = ",".join(host.address for host in hosts)
    train = script(tmp_path, WAITING)
    with ExitStack() as stack:
        pair = Pair(
            stack,
            hosts,
            tmp_path,
            [["--ips", ips, "--nproc_per_node", count, "--device", "cpu", train] for count in (1, 2)],
        )
        refused = pair.jobs[1].finish()
        pair.jobs[0].send(signal.SIGTERM)
        waiting = pair.jobs[0].finish()
    assert refused.code == 2
    assert "2 workers each, the meeting point with" in refused.err
    assert waiting.code == 143


def test_a_machine_that_never_comes_is_waited_for_until_the_deadline(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    ips = ",".join(host.address for host in hosts)
    arguments = ["--ips", ips, "--nproc_per_node", 1, "--device", "cpu", script(tmp_path, WAITING)]
    for number, message in enumerate(("waited for 1 of 2 machines at", "waited for the meeting point")):
        with RunningJob(arguments, tmp_path, {"FLEET_INIT_TIMEOUT_S": "1"}, hosts[number].prefix, warm=True) as job:
            result = job.finish()
        assert result.code == 1
        assert message in result.err


TOKEN = "import os, pathlib; pathlib.Path('token').write_text(os.environ['FLEET_JOB_TOKEN'])"


@pytest.mark.parametrize("given", ["", "open-sesame"])
def test_machines_share_one_token(hosts: tuple[Host, Host], tmp_path: Path, given: str) -> None:
    arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--server_num", 1, "--worker_num", 1]
    arguments += [script(tmp_path, TOKEN)]
    with ExitStack() as stack:
        results = Pair(stack, hosts, tmp_path, [arguments, arguments], (given, given)).finish()
    assert [result.code for result in results] == [0, 0], results
    tokens = {(tmp_path / f"host{number}/token").read_text() for number in range(2)}
    assert len(tokens) == 1
    assert given in ("", *tokens)
    assert not any(token in result.err + result.out for token in tokens for result in results)


def test_a_machine_with_another_token_is_refused(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    arguments = ["--ips", ",".join(host.address for host in hosts), "--nproc_per_node", 1, "--device", "cpu"]
    arguments += [script(tmp_path, WAITING)]
    with ExitStack() as stack:
        pair = Pair(stack, hosts, tmp_path, [arguments, arguments], ("open-sesame", "open-barley"))
        refused = pair.jobs[1].finish()
        pair.jobs[0].send(signal.SIGTERM)
        waiting = pair.jobs[0].finish()
    assert refused.code == 2
    assert "refused this machine: FLEET_JOB_TOKEN is not the one of the meeting point" in refused.err
    assert waiting.code == 143
    assert "open-" not in refused.err + waiting.err


def test_of_two_cables_the_one_that_leads_to_the_peer_is_chosen(tmp_path: Path) -> None:
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "MASTER_ADDR")
    train = script(tmp_path, f"import os; print(*map(os.environ.get, {names}))")
    with hosts_with_two_cables() as hosts, ExitStack() as stack:
        arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--nproc_per_node", 1, "--device", "cpu"]
        results = Pair(stack, hosts, tmp_path, [[*arguments, train]] * 2).finish()
        refused = []
        for number, name in enumerate(("lo", "wire2", "wire1")):
            environ = {"GLOO_SOCKET_IFNAME": name, "FLEET_INIT_TIMEOUT_S": "1"}
            with RunningJob([*arguments, train], tmp_path, environ, hosts[number % 2].prefix, warm=True) as job:
                refused.append(job.finish())
    assert [result.code for result in results] == [0, 0], results
    for number, result in enumerate(results):
        assert result.out == f"wire0 =wire0 {hosts[0].address}\n"
        own, peer = hosts[number].address, hosts[1 - number].address
        assert (
            f"network interface wire0 ({own}) leads to {peer}; also here: wire1 (198.19.0.{number + 1}); "
            "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to use another" in result.err
        )
    assert [result.code for result in refused] == [2, 2, 1]
    assert refused[0].err.startswith("fleetrun: GLOO_SOCKET_IFNAME is lo, loopback, which leads to no other machine")
    assert refused[1].err.startswith("fleetrun: GLOO_SOCKET_IFNAME is wire2, but there is no interface 'wire2'")
    assert "waited for 1 of 2 machines" in refused[2].err
