"""Real jobs whose workers take pieces from a queue: each piece is done once, also when processes are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, RunningJob, fleetrun, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

NUM_PIECES = 400

# A worker notes each piece that it has done in a file, which is its position: its next life begins behind it. It stops
# in the second half until the test has killed what it wants to kill.
WORK = f"""
    import os, sys, time
    import torch
    import fleet
    from fleet.api import fleet as job
    from fleet.data.queue import piece_source

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    name = f"server.{{fleet.server_index()}}" if fleet.is_server() else f"worker.{{fleet.worker_index()}}"
    with open(f"{{name}}.part", "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    os.rename(file.name, f"{{name}}.{{os.environ.get('FLEET_LIFE', 0)}}")
    model = fleet.distributed_model(fleet.nn.Embedding(1, rule=fleet.rules.SGD(1.0)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    if fleet.is_server():
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    done = f"done.{{fleet.worker_index()}}"
    taken = len(open(done).read().split()) if os.path.exists(done) else 0
    source = piece_source(job, "files/0")
    source.begin(0, 10, {NUM_PIECES}, [2, 5], taken)
    deadline = time.monotonic() + {LIMIT_S}
    with open(done, "a") as file:
        while (piece := source.take(0)) is not None:
            while piece > {NUM_PIECES // 2} and not os.path.exists("go") and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.002)
            print(piece, file=file, flush=True)
    assert source.take(0) is None
    fleet.barrier_worker()
    fleet.stop_worker()
"""
ALL = [2, 5, *range(10, NUM_PIECES)]


def done(folder: Path) -> list[int]:
    return [int(line) for path in folder.glob("done.*") for line in path.read_text().split()]


def test_kill_9_of_server_0_and_of_a_worker_leaves_each_piece_to_one(tmp_path: Path) -> None:
    arguments = ["--server_num", 2, "--worker_num", 4, "--durable", "kept", script(tmp_path, WORK)]
    environ = {"OMP_NUM_THREADS": "1"}
    with RunningJob(arguments, tmp_path, environ, warm=True) as job:
        server, worker = int(job.read("server.0.0")), int(job.read("worker.1.0"))
        wait_until(lambda: len(done(tmp_path)) > 40, LIMIT_S, "some pieces to be done")
        os.kill(server, signal.SIGKILL)
        job.read("server.0.1")
        os.kill(worker, signal.SIGKILL)
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err
    assert sorted(done(tmp_path)) == ALL
    assert (tmp_path / "worker.1.1").exists()
    assert all((tmp_path / f"done.{index}").read_text() for index in range(4))


COLLECTIVE = f"""
    import fleet
    from fleet.api import fleet as job
    from fleet.data.queue import piece_source

    fleet.init(is_collective=True)
    source = piece_source(job, "files/0")
    with open(f"done.{{fleet.worker_index()}}", "w") as file:
        for epoch in range(2):
            source.begin(epoch, 10, {NUM_PIECES}, [2, 5])
            while (piece := source.take(epoch)) is not None:
                print(piece, file=file)
    fleet.barrier_worker()
"""


def test_workers_of_a_collective_job_share_a_queue(tmp_path: Path) -> None:
    train = script(tmp_path, COLLECTIVE)
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert sorted(done(tmp_path)) == sorted(2 * ALL)
