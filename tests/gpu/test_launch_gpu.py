"""fleetrun and fleet.init on a machine with a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.launch.planning.devices import count_gpus
from support.jobs import fleetrun, script

NUM_GPUS = count_gpus()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(180),
    pytest.mark.skipif(NUM_GPUS == 0, reason="this machine has no GPU"),
]

REDUCE = """
    import torch, torch.distributed as dist
    import fleet
    fleet.init(is_collective=True)
    on_gpu = torch.ones(3, device=fleet.device)
    on_cpu = torch.ones(3)
    dist.all_reduce(on_gpu)
    dist.all_reduce(on_cpu)
    print(fleet.device, dist.get_backend_config(), on_gpu.tolist(), on_cpu.tolist())
"""


def test_one_worker_per_gpu_by_default(tmp_path: Path) -> None:
    result = fleetrun("--banner", script(tmp_path, REDUCE), cwd=tmp_path, limit_s=120)
    assert result.code == 0, result.err
    each = [float(NUM_GPUS)] * 3
    assert result.out == f"cuda:0 cpu:gloo,cuda:nccl {each} {each}\n"
    assert f"cuda count:{NUM_GPUS}" in result.err


def test_the_last_gpu_alone(tmp_path: Path) -> None:
    result = fleetrun("--gpus", NUM_GPUS - 1, script(tmp_path, REDUCE), cwd=tmp_path, limit_s=120)
    assert result.code == 0, result.err
    assert result.out == "cuda:0 cpu:gloo,cuda:nccl [1.0, 1.0, 1.0] [1.0, 1.0, 1.0]\n"


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = fleetrun("--gpus", 99, script(tmp_path, REDUCE), cwd=tmp_path)
    assert result.code == 2
    assert f"there is no GPU 99; this machine has {NUM_GPUS}" in result.err


def test_two_workers_share_a_gpu_and_talk_over_gloo(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import torch, fleet
        fleet.init(is_collective=True)
        total = fleet.util.all_reduce(torch.ones(2, device=fleet.device))
        print(fleet.device, total.device, total.tolist())
        """,
    )
    result = fleetrun("--gpus", 0, "--nproc_per_node", 2, train, cwd=tmp_path, limit_s=120)
    assert result.code == 0, result.err
    assert result.out == "cuda:0 cuda:0 [2.0, 2.0]\n"
    assert "gpu 0: shared by several workers" in result.err


def test_the_cpu_can_be_asked_for(tmp_path: Path) -> None:
    train = script(tmp_path, "import fleet; fleet.init(is_collective=True); print(fleet.device)")
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, limit_s=120)
    assert result.code == 0, result.err
    assert result.out == "cpu\n"


def test_a_plain_process_takes_the_gpu(tmp_path: Path) -> None:
    import subprocess
    import sys

    from support.jobs import clean_environ

    train = script(tmp_path, "import fleet; fleet.init(is_collective=True); print(fleet.device)")
    done = subprocess.run([sys.executable, train], env=clean_environ(), capture_output=True, text=True, timeout=120)
    assert done.stdout == "cuda:0\n", done.stderr


def test_servers_can_have_a_gpu_each(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, time, torch
        place = (os.environ["FLEET_DEVICE"], torch.cuda.device_count(), torch.ones(2, device="cuda").sum().item())
        print(*place, flush=True)
        if os.environ["TRAINING_ROLE"] == "PSERVER":
            open("ready." + os.environ["PADDLE_PSERVER_ID"], "w").close()
            signal.pause()
        while not all(os.path.exists(f"ready.{index}") for index in range(2)):
            time.sleep(0.01)
        """,
    )
    arguments = ["--server_num", 2, "--worker_num", 1, "--device", "cuda", "--server_device", "cuda", train]
    result = fleetrun(*arguments, cwd=tmp_path, limit_s=120)
    assert result.code == 0, result.err
    assert result.out == f"cuda {NUM_GPUS} 2.0\n"
    assert [(tmp_path / f"log/serverlog.{index}").read_text() for index in range(2)] == ["cuda 1 2.0\n"] * 2
    assert "NCCL refuses" not in result.err
