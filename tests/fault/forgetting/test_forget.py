"""`fleet.forget` in a job that runs: no file has a byte of the rows or keys, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fleet.errors import FleetError
from fleet_serve.client import ServingClient
from support.jobs import LIMIT_S, RunningJob, script
from support.processes import told, wait_until
from support.serving.replicas import TOKEN, replica
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)
SAMPLE = {("async", 1), ("sync", 2)}

# Ids of users are wide, those of items small numbers; both tables are asked for both.
TRAIN = """
    import json, os, sys, time
    from pathlib import Path
    import torch
    import fleet

    mode, num_ids, num_forgotten = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode == "async"
    strategy.publish, strategy.publish_every_s = "stream", 0.05
    fleet.init(strategy=strategy)
    who = f"server-{fleet.server_index()}" if fleet.is_server() else f"worker-{fleet.worker_index()}"
    Path(f"pid-{who}").write_text(f"{os.getpid()}\\n")
    if fleet.is_server():
        fleet.run_server()
        sys.exit()
    torch.manual_seed(0)
    users = fleet.nn.Embedding(8, table="users", rule=fleet.rules.Adagrad(lr=0.1))
    items = fleet.nn.Embedding(6, table="items", rule=fleet.rules.SGD(lr=0.5))
    model = fleet.distributed_model(torch.nn.ModuleList([users, items, torch.nn.Linear(14, 1)]))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model[2].parameters(), lr=0.01))
    fleet.init_worker()
    wide = 0x1234567890AB + torch.arange(num_ids) * 7919
    small = torch.arange(num_ids) + 3

    def train(steps, first):
        for step in fleet.steps(steps):
            seeded = torch.Generator().manual_seed(steps + step)
            chosen = torch.randperm(num_ids - first, generator=seeded)[:256] + first
            both = torch.cat([wide[chosen], small[chosen]])
            rows = torch.cat([users(both), items(both)], 1)
            loss = (model[2](rows) - torch.sin(both.double()).float()[:, None]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    train(60, 0)
    fleet.save_persistables("saved", incremental=True)
    train(20, 0)
    fleet.save_persistables("saved", incremental=True)
    fleet.save_inference_model("copy")
    forgotten = torch.cat([wide[: num_forgotten // 2], small[: num_forgotten // 2]])
    fleet.flush()
    if fleet.is_first_worker():
        if not Path("rows").exists():
            model.eval()
            with torch.no_grad():
                found = [table(forgotten).numpy().tobytes() for table in (users, items)]
            model.train()
            Path("rows.part").write_bytes(b"".join(found))
            os.rename("rows.part", "rows")
        while not Path("go").exists():
            time.sleep(0.01)
        Path("requests").write_text("\\n".join(map(str, forgotten.tolist())))
    fleet.util.barrier()
    report = fleet.forget("requests", folders=["saved", "copy", "cache"])
    if fleet.is_first_worker():
        said = {"rows": report.rows, "clean": report.is_clean, "seconds": report.seconds, "text": str(report),
                "searched": report.searched_rows}
        Path("report.part").write_text(json.dumps(said))
        os.rename("report.part", "report")
        while not Path("end").exists():
            time.sleep(0.01)
    fleet.util.barrier()
    train(30, num_forgotten // 2)
    fleet.save_persistables("after", incremental=True)
    fleet.stop_worker()
"""


def patterns(folder: Path, num: int) -> list[bytes]:
    """The wide keys that were forgotten, and the bytes of all rows; written down by nobody but this test."""
    data = (folder / "rows").read_bytes()
    rows = [data[at : at + 32] for at in range(0, num * 32, 32)]
    rows += [data[num * 32 :][at : at + 24] for at in range(0, num * 24, 24)]
    wide = [int(0x1234567890AB + number * 7919).to_bytes(8, "little") for number in range(num // 2)]
    return wide + [row for row in rows if any(row)]


def files_with(patterns: list[bytes], *folders: Path) -> list[str]:
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                num = sum(one in data for one in patterns)
                found += [f"{path} has {num}"] if num else []
    return found


def test_a_running_job_forgets_a_thousand_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    program, num = script(tmp_path, TRAIN), 1000
    (tmp_path / "cache").mkdir()
    options = [
        "--server_num",
        2,
        "--worker_num",
        2,
        "--durable",
        "kept",
        "--log_dir",
        "log",
        program,
        "async",
        3000,
        num,
    ]
    places = [tmp_path / name for name in ("kept", "stream", "saved", "copy", "cache")]
    with RunningJob(options, tmp_path, warm=True) as job:
        wait_until((tmp_path / "rows").exists, LIMIT_S, "the rows before")
        wanted = patterns(tmp_path, num)
        arguments = ("--follow", str(tmp_path / "stream"), "--cache", str(tmp_path / "cache"), "--max_lag", "600")
        with replica(*arguments) as one, ServingClient(one.endpoint) as client:
            keys = np.array([0x1234567890AB + number * 7919 for number in range(num // 2)], np.int64)
            looked_up(client, keys, lambda rows: rows.any(1).sum() > 450)
            for place in places[:-1]:  # a replica may still have all of it from batches
                assert files_with(wanted, place), f"{place} has nothing to begin with"
            began_at = time.monotonic()
            (tmp_path / "go").touch()
            wait_until((tmp_path / "report").exists, LIMIT_S, "the report")
            took_s = time.monotonic() - began_at
            report = json.loads((tmp_path / "report").read_text())
            assert report["clean"], report["text"]
            assert took_s < 60
            assert report["rows"] > num
            assert report["searched"] > num
            assert not files_with(wanted, *places)
            looked_up(client, keys, lambda rows: not rows.any())
        (tmp_path / "end").touch()
        done = job.finish()
    assert done.code == 0, done.err
    assert not files_with(wanted, tmp_path / "after", *places)


def looked_up(client: ServingClient, keys: np.ndarray, is_right: object) -> np.ndarray:
    deadline, said = time.monotonic() + LIMIT_S, ""
    while True:
        try:
            rows: np.ndarray = client.lookup({"users": keys})[0]["users"]
            if is_right(rows):  # type: ignore[operator]
                return rows
            said = f"{int(rows.any(1).sum())} rows"
        except FleetError as error:  # it has no model yet
            said = str(error)
        assert time.monotonic() < deadline, f"the replica does not come to it: {said}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("mode", "seed"), sweep(["sync", "async"], range(20), sample=lambda mode, seed: (mode, seed) in SAMPLE)
)
def test_whoever_is_killed_meanwhile(mode: str, seed: int, tmp_path: Path) -> None:
    """Its next life completes what was begun."""
    chance, num = random.Random(seed), 300
    options = ["--server_num", 2, "--worker_num", 2, "--durable", "kept", "--log_dir", "log"]
    places = [tmp_path / name for name in ("kept", "stream", "saved", "copy", "cache")]
    (tmp_path / "cache").mkdir()
    with RunningJob([*options, script(tmp_path, TRAIN), mode, 1500, num], tmp_path, warm=True) as job:
        wait_until((tmp_path / "rows").exists, LIMIT_S, "the rows before")
        wanted = patterns(tmp_path, num)
        (tmp_path / "go").touch()
        for _ in range(chance.randrange(1, 4)):
            time.sleep(chance.random())  # anywhere in what follows
            who = chance.choice(["server-0", "server-1", "worker-0", "worker-1"])
            with suppress(ProcessLookupError):
                os.kill(int(told(tmp_path / f"pid-{who}", LIMIT_S, who)), signal.SIGKILL)
        wait_until((tmp_path / "report").exists, LIMIT_S, "the report")
        report = json.loads((tmp_path / "report").read_text())
        assert report["clean"], report["text"]
        assert not files_with(wanted, *places)
        (tmp_path / "end").touch()
        done = job.finish()
    assert done.code == 0, done.err
    assert done.err.count("was killed by SIGKILL") >= 1, done.err
    assert not files_with(wanted, tmp_path / "after", *places)
