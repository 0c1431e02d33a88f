"""Arguments that cannot work: one line with the thing and the remedy, exit code 2, nothing started or written."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def busy_port() -> Iterator[int]:
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
    "servers on cuda but no gpu": (
        ["--server_num", "1", "--worker_num", "1", "--server_device", "cuda", "train.py"],
        "--server_device cuda: this machine has no GPU that may be used; add --server_device cpu",
    ),
    "server device without servers": (
        ["--server_device", "cuda", "--device", "cpu", "train.py"],
        "--server_device cuda: a collective job has no servers; leave it out",
    ),
    "server device of another kind": (
        ["--server_num", "1", "--worker_num", "1", "--server_device", "tpu", "train.py"],
        "'tpu' is not one of 'cpu', 'cuda'",
    ),
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
    "elastic without a meeting point": (["--nnodes", "2:4", "train.py"], "--nnodes 2:4 needs --master HOST:PORT"),
    "elastic on named machines": (
        ["--nnodes", "1:2", "--ips", "127.0.0.1,203.0.113.1", "train.py"],
        "--nnodes 1:2: --ips names the machines, so their number cannot change",
    ),
    "elastic with servers": (
        ["--nnodes", "1:2", "--master", "127.0.0.1:6000", "--server_num", "1", "--worker_num", "1", "train.py"],
        "--nnodes 1:2: a changing number of machines is not supported with parameter servers",
    ),
    "elastic, the wrong way round": (["--nnodes", "3:2", "train.py"], "--nnodes 3:2: the least comes first; write 2:3"),
    "elastic, down to nothing": (["--nnodes", "0:2", "train.py"], "--nnodes 0:2: a job has at least 1 machine"),
    "elastic, not numbers": (["--nnodes", "x:2", "train.py"], "--nnodes 'x:2' is neither a number of machines"),
    "a machine that others cannot reach": (
        ["--ips", "127.0.0.1,203.0.113.1", "--device", "cpu", "train.py"],
        "--ips names 127.0.0.1, which other machines cannot reach",
    ),
    "options after the script": (
        ["train.py", "--server_num", "2", "--lr", "0.1", "--worker-num=2"],
        "--server_num, --worker-num stand after the script, which would get them; for fleetrun write: "
        "fleetrun --server_num 2 --worker-num=2 train.py --lr 0.1 "
        "(for the script: fleetrun -- train.py --server_num 2 --lr 0.1 --worker-num=2)",
    ),
    "a flag after the module": (
        ["-m", "train", "--dry-run", "--epochs", "3"],
        "--dry-run stands after the script, which would get it; for fleetrun write: "
        "fleetrun -m --dry-run train --epochs 3 (for the script: fleetrun -m -- train --dry-run --epochs 3)",
    ),
    "a number of servers instead of their addresses": (
        ["--servers", "1", "train.py"],
        "--servers 1: addresses stand there, HOST:PORT of each; for a number of them write --server_num 1",
    ),
    "two numbers instead of addresses": (
        ["--servers", "1", "--workers", "2", "train.py"],
        "for a number of them write --server_num 1 --worker_num 2",
    ),
    "an option of torchrun": (["--node_rank", "1", "train.py"], "--node_rank: use --rank"),
    "another option of torchrun": (["--rdzv-endpoint", "a:1", "train.py"], "use --master HOST:PORT with --nnodes"),
    "workers by another name": (["--nproc-per-node", "gpu", "train.py"], "leave it out for one worker per GPU"),
    "an option not built yet": (["--heter_workers", "a:1", "train.py"], "heterogeneous workers are not supported yet"),
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
    "more and less at once": (["--banner", "-q", "train.py"], "--banner shows more and --quiet less than usual"),
    "selfcheck and script": (["--selfcheck", "--device", "cpu", "train.py"], "leave out train.py"),
    "restarts on several machines": (
        ["--servers", "127.0.0.1:6170", "--workers", "203.0.113.9", "--max_restart", "3", "train.py"],
        "--max_restart on several machines is not supported with parameter servers",
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
