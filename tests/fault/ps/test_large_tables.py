"""A server whose rows lie mostly on its disk is killed in the middle of a job: no push is lost, none counts twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, RunningJob, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

# Rows count how often their ids were trained on; a small journal makes snapshots, which link to files, come often.
TRAIN = """
    import json, os, pathlib, sys, time
    import torch
    import fleet
    from fleet.ps.durable import durability

    durability.SNAPSHOT_BYTES = 300_000
    NUM_IDS, BATCH, STEPS = 30_000, 3_000, 40
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        sys.exit()
    model = fleet.distributed_model(fleet.nn.Embedding(
        4, rule=fleet.rules.SGD(lr=1.0), initializer=fleet.initializers.Constant(0.0), memory="1MiB"))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    ids = [torch.randperm(NUM_IDS, generator=torch.Generator().manual_seed(s))[:BATCH] for s in range(STEPS)]
    for step, some in enumerate(ids):
        (-model(some).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == STEPS // 2:
            fleet.flush()
            pathlib.Path("half").touch()
            while not pathlib.Path("killed").exists():
                time.sleep(0.01)
    fleet.flush()
    (stats,) = fleet.server_stats()
    model.eval()
    found = torch.cat([model(some) for some in torch.arange(NUM_IDS).split(BATCH)]).detach()
    counts = torch.bincount(torch.cat(ids), minlength=NUM_IDS)
    wrong = int((found != counts[:, None]).any(1).sum())
    (table,) = stats["tables"].values()
    pathlib.Path("out.part").write_text(json.dumps({"wrong": wrong, "touched": int((counts > 0).sum()), **table}))
    os.rename("out.part", "out")
    fleet.stop_worker()
"""


def test_a_server_with_cold_rows_is_killed(tmp_path: Path) -> None:
    program = script(tmp_path, TRAIN)
    options = ["--server_num", 1, "--worker_num", 1, "--durable", "kept", "--log_dir", "log", program]
    with RunningJob(options, tmp_path, warm=True, real_restarts=True) as job:
        wait_until((tmp_path / "half").exists, LIMIT_S, "half of the steps")
        wait_until(lambda: any((tmp_path / "kept").rglob("snapshot-*.runs/*.run")), LIMIT_S, "a snapshot with files")
        (folder,) = (tmp_path / "kept" / "tables").glob("server-0-*")
        os.kill(int(folder.name.split("-")[2]), signal.SIGKILL)
        (tmp_path / "killed").touch()
        done = job.finish(LIMIT_S)
    assert done.code == 0, done.err
    out = json.loads((tmp_path / "out").read_text())
    assert out["wrong"] == 0
    assert out["rows"] == out["touched"] > 20_000
    assert out["disk"]["cold_rows"] > out["disk"]["hot_rows"] > 0
    assert not list((tmp_path / "kept").rglob("*.run")), "a job that has finished leaves no files"
