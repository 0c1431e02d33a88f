"""fleetrun with real processes: what children are told, what the terminal shows, what is refused."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import RunningJob, clean_environ, fleetrun, script

pytestmark = pytest.mark.timeout(90)

ALL_REDUCE = """
    import fleet
    fleet.init(is_collective=True)
    total = fleet.util.all_reduce(fleet.worker_index() + 1)
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}: total {total}")
"""


def test_two_workers_meet_and_only_worker_0_is_followed(tmp_path: Path) -> None:
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE), cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "worker 0 of 2: total 3\n"
    assert (tmp_path / "log/workerlog.1").read_text() == "worker 1 of 2: total 3\n"
    assert "Local processes completed." in result.err


def test_the_banner_shows_arguments_and_distributed_variables(tmp_path: Path) -> None:
    train = script(tmp_path, "")
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, "--lr", "0.1", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "-----------  Configuration Arguments -----------\n" in result.err
    assert f"\ntraining_script: {train}\ntraining_script_args: ['--lr', '0.1']\n" in result.err
    assert "Run collective cpu mode." in result.err
    box = [line for line in result.err.splitlines() if line.startswith(("    |", "    +"))]
    assert len({len(line) for line in box}) == 1
    assert re.search(r"\| +PADDLE_TRAINER_ENDPOINTS +127\.0\.0\.1:\d+,127\.0\.0\.1:\d+ +\|", result.err)
    assert re.search(r"\| +PADDLE_TRAINERS_NUM +2 +\|", result.err)


def test_a_plain_torch_script_runs_unchanged(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        print("total", total.item(), "of", dist.get_world_size())
        dist.destroy_process_group()
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "total 3.0 of 2\n"


def test_a_server_job_tells_each_process_its_role_and_stops_the_servers(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import json, signal, fleet
        fleet.init()
        role = "worker" if fleet.is_worker() else "server"
        gathered = fleet.util.all_gather([role, fleet.worker_index()], comm_world="all")
        if fleet.is_worker():
            fleet.barrier_worker()
            print(json.dumps({"gathered": gathered, "files": fleet.util.get_file_shard(list("abcde")),
                              "servers": fleet.server_endpoints(), "workers": fleet.worker_num()}))
        else:
            print("serving", fleet.server_index(), fleet.util.all_reduce(1, comm_world="server"))
            signal.sigwait({signal.SIGTERM})
            print("told to stop")
        """,
    )
    # Blocked before the script starts, so that the signal cannot come too early.
    train.write_text("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n" + train.read_text())
    result = fleetrun("--server_num", 2, "--worker_num", 2, train, cwd=tmp_path)
    assert result.code == 0, result.err
    seen = [json.loads((tmp_path / f"log/workerlog.{index}").read_text()) for index in range(2)]
    assert seen[0]["gathered"] == [["worker", 0], ["worker", 1], ["server", 0], ["server", 1]]
    assert [one["files"] for one in seen] == [["a", "b", "c"], ["d", "e"]]
    assert len(set(seen[0]["servers"])) == 2
    for index in range(2):
        assert (tmp_path / f"log/serverlog.{index}").read_text() == f"serving {index} 2\ntold to stop\n"
    assert "all workers exit, going to finish parameter server" in result.err


def test_two_jobs_at_once_do_not_collide(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    arguments = ["--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE)]
    with RunningJob(arguments, folders[0]) as first, RunningJob(arguments, folders[1]) as second:
        assert [first.finish().code, second.finish().code] == [0, 0]


def test_ports_are_held_while_the_job_starts(tmp_path: Path) -> None:
    """Between the choice of a port and the child's use of it, nobody else can have it."""
    train = script(
        tmp_path,
        """
        import os, signal
        with open(f"worker.{os.environ['PADDLE_TRAINER_ID']}", "w") as file:
            file.write(os.environ["PADDLE_CURRENT_ENDPOINT"] + "\\n")
        signal.pause()
        """,
    )
    with RunningJob(["--nproc_per_node", 2, "--device", "cpu", train], tmp_path) as job:
        for index in range(2):
            port = int(job.read(f"worker.{index}").rpartition(":")[2])
            for options in ([], [socket.SO_REUSEADDR]):
                with socket.socket() as thief:
                    for option in options:
                        thief.setsockopt(socket.SOL_SOCKET, option, 1)
                    with pytest.raises(OSError, match="Address already in use"):
                        thief.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    "arguments", [["--nproc_per_node", 2, "--device", "cpu"], ["--server_num", 1, "--worker_num", 2]]
)
def test_selfcheck(tmp_path: Path, arguments: list[object]) -> None:
    result = fleetrun(*arguments, "--selfcheck", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "selfcheck passed" in result.out
    assert "worker 1" in result.out


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    result = fleetrun("--server_num", 1, "--worker_num", 2, "--dry-run", script(tmp_path, "1/0"), cwd=tmp_path)
    assert result.code == 0, result.err
    assert re.search(r"worker 1 +127\.0\.0\.1:\d+ +cpu +log/workerlog\.1", result.out)
    assert not (tmp_path / "log").exists()


def test_a_worker_that_never_comes_is_named(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal
        if os.environ["RANK"] == "1":
            signal.pause()
        import fleet
        fleet.init(is_collective=True)
        """,
    )
    result = fleetrun(
        "--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, environ={"FLEET_INIT_TIMEOUT_S": "1"}
    )
    assert result.code == 1
    assert re.search(r"DeadlineError: waited 1 s at 127\.0\.0\.1:\d+ for worker 1; ", result.err)


def test_values_that_differ_are_refused_on_every_worker(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import fleet
        fleet.init(is_collective=True)
        try:
            fleet.util.all_reduce([1.0] * (fleet.worker_index() + 1))
        except ValueError as error:
            print(error)
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0, result.err
    expected = "in the worker world: rank 0: float64 [1] sum; rank 1: float64 [2] sum\n"
    for text in (result.out, (tmp_path / "log/workerlog.1").read_text()):
        assert text == f"all_reduce was called with different values {expected}"


def test_a_module_can_be_started(tmp_path: Path) -> None:
    script(tmp_path, "import sys; print(__name__, sys.argv[1:])", "trainer_module.py")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", "-m", "trainer_module", "--gpus", "7", cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "__main__ ['--gpus', '7']\n"


def test_torchrun_starts_a_fleet_script(tmp_path: Path) -> None:
    train = script(tmp_path, ALL_REDUCE)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(train)]
    environ = {**clean_environ(), "TMPDIR": str(tmp_path)}  # torchrun leaves a folder there
    done = subprocess.run(torchrun, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for index in range(2):  # they share one stdout, so their lines may run into each other
        assert f"worker {index} of 2: total 3" in done.stdout


def test_help_needs_neither_torch_nor_rich(tmp_path: Path) -> None:
    program = (
        "import sys; from fleet.launch.cli import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "Usage: fleetrun" in done.stdout
    assert not {"'torch'", "'rich'", "'psutil'", "'numpy'"} & set(re.findall(r"'\w+'", done.stderr))


@pytest.fixture(scope="module")
def busy_port() -> object:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


MISTAKES = {
    "no script": ([], "no training script"),
    "missing script": (["nowhere.py"], "training script nowhere.py does not exist"),
    "script is a folder": (["."], "training script . is a folder"),
    "not a gpu number": (["--gpus", "0,x", "train.py"], "'0,x' is not a comma list of GPU numbers"),
    "same gpu twice": (["--gpus", "1,1", "train.py"], "--gpus 1,1 names a GPU twice"),
    "no gpu here": (["--gpus", "0", "train.py"], "no GPU"),
    "cuda but no gpu": (["--device", "cuda", "train.py"], "--device cuda: this machine has no GPU"),
    "endpoint without port": (
        ["--servers", "127.0.0.1", "--workers", "127.0.0.1", "train.py"],
        "--servers '127.0.0.1' has no port",
    ),
    "port out of range": (["--servers", "127.0.0.1:70000", "--workers", "127.0.0.1", "train.py"], "has port '70000'"),
    "not an address": (
        ["--servers", "10.0.0.:1", "--workers", "127.0.0.1", "train.py"],
        "neither an IP address nor a host name",
    ),
    "empty item": (["--ips", "127.0.0.1,,", "train.py"], "--ips '127.0.0.1,,' has an empty item"),
    "duplicate endpoint": (
        ["--servers", "127.0.0.1:6170,127.0.0.1:6170", "--workers", "127.0.0.1", "train.py"],
        "--servers names 127.0.0.1:6170 twice",
    ),
    "server and worker on one endpoint": (
        ["--servers", "127.0.0.1:6170", "--workers", "127.0.0.1:6170", "train.py"],
        "--servers and --workers names 127.0.0.1:6170 twice",
    ),
    "duplicate ip": (["--ips", "127.0.0.1,127.0.0.1", "train.py"], "--ips names 127.0.0.1 twice"),
    "own ip not in --ips": (["--ips", "203.0.113.1,203.0.113.2", "train.py"], "none is an address of this machine"),
    "one foreign ip": (["--ips", "203.0.113.1", "train.py"], "none is an address of this machine"),
    "no local server or worker": (
        ["--servers", "203.0.113.1:6170", "--workers", "203.0.113.2", "train.py"],
        "none is an address of this machine",
    ),
    "port in use": (
        ["--servers", "127.0.0.1:BUSY", "--workers", "127.0.0.1", "train.py"],
        "port BUSY of 127.0.0.1 is in use",
    ),
    "start port in use": (["--start_port", "BUSY", "--device", "cpu", "train.py"], "port BUSY of 127.0.0.1 is in use"),
    "start port too high": (
        ["--start_port", "65535", "--nproc_per_node", "3", "--device", "cpu", "train.py"],
        "leads to ports 65535 to 65538",
    ),
    "no workers": (
        ["--server_num", "1", "--worker_num", "0", "train.py"],
        "--worker_num must be a whole number >= 1, got 0",
    ),
    "no servers": (
        ["--server_num", "0", "--worker_num", "1", "train.py"],
        "--server_num must be a whole number >= 1, got 0",
    ),
    "workers without servers": (["--worker_num", "1", "train.py"], "--worker_num 1 needs --server_num too"),
    "not a number": (["--nproc_per_node", "two", "train.py"], "--nproc_per_node must be a whole number >= 1, got two"),
    "mixed modes": (
        ["--server_num", "1", "--worker_num", "1", "--ips", "127.0.0.1", "train.py"],
        "--ips belongs to a collective job",
    ),
    "nodes without a meeting point": (["--nnodes", "2", "train.py"], "--nnodes 2 needs --master"),
    "meeting point without nodes": (
        ["--master", "127.0.0.1:6000", "--device", "cpu", "train.py"],
        "--master needs --nnodes",
    ),
    "elastic": (["--nnodes", "2:4", "train.py"], "not supported yet"),
    "unknown option": (["--bogus", "train.py"], "No such option '--bogus'"),
    "rank without machines": (["--rank", "7", "--device", "cpu", "train.py"], "--rank 7 goes with --master or --ips"),
    "rank past the machines": (["--rank", "5", "--ips", "127.0.0.1", "train.py"], "--rank 5: --ips names 1 machines"),
    "nodes and lists": (
        ["--nnodes", "5", "--servers", "127.0.0.1:6170", "--workers", "127.0.0.1", "train.py"],
        "--nnodes 5: --servers and --workers name 1",
    ),
    "master and lists": (
        ["--master", "127.0.0.1:6000", "--nnodes", "2", "--servers", "a:1", "--workers", "b", "train.py"],
        "--master and --servers and --workers both say where the machines are",
    ),
    "master and start port": (
        ["--master", "127.0.0.1:6000", "--nnodes", "2", "--start_port", "7000", "train.py"],
        "--start_port has no meaning with --master",
    ),
    "selfcheck and script": (["--selfcheck", "--device", "cpu", "train.py"], "leave out train.py"),
    "restarts on several machines": (
        ["--servers", "127.0.0.1:6170", "--workers", "203.0.113.9", "--max_restart", "3", "train.py"],
        "--max_restart on several machines is not supported yet",
    ),
    "a machine by two addresses": (
        ["--servers", "127.0.0.1:6170", "--workers", "localhost,203.0.113.9", "train.py"],
        "name each machine by one address",
    ),
    "ports past the end": (
        ["--start_port", "65500", "--servers", "127.0.0.1:6170", "--workers", "127.0.0.1", "train.py"],
        "a port is a number from 1 to 65535",
    ),
    "no such module": (["--device", "cpu", "-m", "nowhere.trainer"], "there is no module nowhere"),
    "module without a name": (["--device", "cpu", "-m"], "no training script"),
    "a gpu hidden by a variable": (["--gpus", "0", "train.py"], "no GPU"),
    "log folder is a file": (
        ["--device", "cpu", "--log_dir", "train.py", "train.py"],
        "--log_dir train.py: train.py is not a folder",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line_and_starts_nothing(name: str, tmp_path: Path, busy_port: int) -> None:
    arguments, message = MISTAKES[name]
    script(tmp_path, "open('started', 'w')")
    environ = {"CUDA_VISIBLE_DEVICES": ""} | ({"CUDA_VISIBLE_DEVICES": "-1"} if "gpu" in name else {})
    result = fleetrun(
        *(argument.replace("BUSY", str(busy_port)) for argument in arguments), cwd=tmp_path, environ=environ
    )
    assert result.code == 2, result.err
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("fleetrun: ")
    assert message.replace("BUSY", str(busy_port)) in lines[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_gpus_can_be_named_on_a_machine_without_any_if_the_device_is_cpu(tmp_path: Path) -> None:
    train = script(tmp_path, "import os; print(os.environ['PADDLE_TRAINERS_NUM'])")
    result = fleetrun("--gpus", "0,1", "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "2\n"


def test_variables_of_another_launcher_do_not_reach_the_children(tmp_path: Path) -> None:
    stray = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "203.0.113.1", "PADDLE_TRAINER_ID": "5", "LOCAL_RANK": "3"}
    train = script(tmp_path, "import fleet, signal; fleet.init(); print(fleet.is_server(), fleet.worker_index())")
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path, environ=stray)
    assert result.code == 0, result.err
    assert result.out == "False 0\n"


def test_a_script_whose_name_looks_like_an_option(tmp_path: Path) -> None:
    script(tmp_path, "print('hello')", "-x.py")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", "--", "-x.py", cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "hello\n"


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_one_machine_by_another_name(tmp_path: Path, host: str) -> None:
    result = fleetrun(
        "--ips", host, "--nproc_per_node", 2, "--device", "cpu", script(tmp_path, ALL_REDUCE), cwd=tmp_path
    )
    assert result.code == 0, result.err
    assert result.out.endswith("worker 0 of 2: total 3\n")
