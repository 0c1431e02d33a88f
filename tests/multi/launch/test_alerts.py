"""Alert rules in a real Prometheus, of Debian's package: a worker that is stopped is noticed; skipped without it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.jobs import RunningJob, script
from support.processes import wait_until
from support.serving.watched import figure, port_of, seen_of

DEPLOY = Path(__file__).parents[3] / "deploy" / "prometheus"

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus"),
    pytest.mark.timeout(240),
]

TRAIN = """
    import os, sys, time, torch, fleet
    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model = fleet.distributed_model(torch.nn.Sequential(fleet.nn.Embedding(4), torch.nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1))
    fleet.init_worker()
    while True:
        optimizer.zero_grad()
        model(torch.arange(8)).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
"""


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """One that reads this job each second, with our rules in a hurry; its address."""
    rules = (DEPLOY / "alerts.yml").read_text()
    hurried = re.sub(r"for: \d+m", "for: 1s", rules).replace("> 300", "> 4")
    assert hurried.count("> 4") == 2
    (folder / "alerts.yml").write_text(hurried)
    config = (DEPLOY / "prometheus.yml").read_text().replace("5s", "1s").replace("127.0.0.1:9400", target)
    assert target in config
    (folder / "prometheus.yml").write_text(config)
    log = (folder / "prometheus.log").open("w")
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with log, subprocess.Popen([*command, "--web.listen-address=127.0.0.1:0"], stderr=log, stdout=log) as process:
        try:
            found: list[str] = []

            def listens() -> bool:
                told = (folder / "prometheus.log").read_text()
                found.extend(re.findall(r"address=(127\.0\.0\.1:[1-9]\d*)", told))
                return bool(found) and "ready to receive web requests" in told

            wait_until(listens, 60, "Prometheus")
            yield found[-1]
        finally:
            process.kill()


def alerts(address: str) -> set[tuple[str, str]]:
    """Those that fire, and for whom."""
    with urlopen(f"http://{address}/api/v1/alerts", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["alerts"]
    return {(one["labels"]["alertname"], one["labels"].get("index", "")) for one in found if one["state"] == "firing"}


def test_a_worker_that_is_stopped_raises_an_alarm(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    train, log = script(tmp_path, TRAIN), tmp_path / "log"
    arguments = ("--server_num", 1, "--worker_num", 2, "--metrics_port", 0, train)
    with RunningJob(arguments, tmp_path, environ={"FLEET_WAIT_NOTICE_S": "1"}, warm=True) as job:
        target = port_of(tmp_path, "figures for Prometheus").removeprefix("http://").removesuffix("/metrics")
        steps = "fleet_worker_steps_total"
        wait_until(lambda: (figure(log, "worker 1", steps) or 0) > 5, 120, "steps")
        with prometheus(tmp_path, target) as address:
            query = f"http://{address}/api/v1/query?query={steps}"
            wait_until(lambda: b'"index":"1"' in urlopen(query, timeout=30).read(), 60, "Prometheus to read it")
            assert alerts(address) == set()
            pid = int(seen_of(log)["worker 1"].about["pid"])
            os.kill(pid, signal.SIGSTOP)
            expected = {("FleetJobStuck", ""), ("FleetWorkerStuck", "1")}
            wait_until(lambda: alerts(address) == expected, 60, "the alarm, for the worker that is stopped alone")
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda: alerts(address) == set(), 60, "its end")
        job.send(signal.SIGTERM)
        job.finish()
