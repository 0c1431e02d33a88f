"""Servers of a durable job are killed while they publish: who follows misses nothing and gets nothing twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleet.checkpoint import read_inference
from support.jobs import Result, RunningJob, script
from support.serving.follower import Follower
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)

TRAIN = """
    import os, random, signal, sys, time
    from pathlib import Path
    import torch
    import fleet

    mode, seed = sys.argv[1], int(sys.argv[2])
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode == "async"
    strategy.publish, strategy.publish_every_s = "stream", 0.02
    fleet.init(strategy=strategy)
    if fleet.is_server():
        Path(f"pid-{fleet.server_index()}").write_text(f"{os.getpid()}\\n")
        fleet.run_server()
        sys.exit()
    torch.manual_seed(0)
    tables = [fleet.nn.Embedding(4, table="ads"), fleet.nn.Embedding(3, table="users", rule=fleet.rules.SGD(lr=0.5))]
    model = fleet.distributed_model(torch.nn.ModuleList([*tables, torch.nn.Linear(7, 1)]))
    dense = fleet.distributed_optimizer(torch.optim.Adam([*model[0].parameters(), model[2].weight], lr=0.01))
    bias = fleet.distributed_optimizer(torch.optim.SGD([model[2].bias], lr=0.1))
    fleet.init_worker()
    rng = random.Random(seed)
    kills = {rng.randrange(10, 80): rng.randrange(2) for _ in range(3)} if seed >= 0 else {}
    for step in range(fleet.steps_done(), 90):
        if step in kills:
            time.sleep(rng.random() * 0.05)  # anywhere between two batches of changes
            os.kill(int(Path(f"pid-{kills[step]}").read_text()), signal.SIGKILL)
        if seed < 0 and step == 40:
            fleet.reshard(servers=3, wait=True)
        ids = torch.randint(0, 2000, (32, 3), generator=torch.Generator().manual_seed(step))
        loss = model[2](torch.cat([table(ids).mean(1) for table in tables], 1)).square().mean()
        dense.zero_grad()
        bias.zero_grad()
        loss.backward()
        dense.step()
        bias.step()
        time.sleep(0.01)
    fleet.flush()
    fleet.save_inference_model("final")
    fleet.stop_worker()
"""


def follow_to_the_end(tmp_path: Path, mode: str, seed: int) -> tuple[Follower, Result]:
    """Run the job, and follow it until the follower has what the job has saved."""
    program = script(tmp_path, TRAIN)
    options = ["--server_num", 2, "--worker_num", 1, "--durable", "kept", "--log_dir", "log", program, mode, seed]
    with RunningJob(options, tmp_path, warm=True) as job:
        follower = Follower(tmp_path / "stream")
        while not job.ends_within(0.0):
            follower.step()
        done = job.finish()
    assert done.code == 0, done.err
    truth = read_inference(tmp_path / "final")
    rows = {
        name: {int(key): row.tobytes() for key, row in zip(*both, strict=True)} for name, both in truth.tables.items()
    }
    follower.until(lambda: follower.tables == rows, "the last batches")
    same = {name: np.array_equal(values, follower.dense[name]) for name, values in truth.dense.items()}
    assert same == {"2.weight": True, "2.bias": True}
    return follower, done


@pytest.mark.parametrize(
    ("mode", "seed"), sweep(["sync", "async"], range(20), sample=lambda mode, seed: (mode, seed) == ("async", 0))
)
def test_killed_servers_publish_on(mode: str, seed: int, tmp_path: Path) -> None:
    follower, done = follow_to_the_end(tmp_path, mode, seed)
    assert done.err.count("was killed by SIGKILL") > 1, done.err
    for shard in range(2):
        numbers = [number for at, number in follower.taken if at == shard]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert follower.num_bases == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_another_number_of_servers_is_another_stream(mode: str, tmp_path: Path) -> None:
    follower, _ = follow_to_the_end(tmp_path, mode, -1)
    assert follower.stream.head.num_shards == 3
    assert follower.num_bases > 1
