"""A Ray cluster of three nodes on this machine, held by a process of its own: `python ray_cluster.py FOLDER`.

It prints the cluster's address, then obeys lines of its input: `remove` takes a node away, with all that runs there,
`lose` kills it without a word, `add` brings a new one, `drain` has Ray know that one will be taken; the end of the
input ends all. What a test asks for is `running`, in another Python than this one, which has Ray.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "engines-ray" / "bin" / "python"
"""What `make engines` makes: Ray, with everything of .venv behind it."""
IS_THERE = (PYTHON.parents[1] / ".done").exists()
MISSING = "needs Ray in build/engines-ray: make engines"
NODE = {"num_cpus": 4, "resources": {"job": 4}}
"""What jobs of the tests ask for is on the two nodes that can be removed, and on neither alone the only one."""


class HeldCluster:
    """What the tests know of the cluster; its processes carry a mark in their environment."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self._process = process
        self._mark = mark
        self._jobs: list[RayJob] = []
        self.address = self._answer()

    def ask(self, what: str) -> str:
        """Have it add or remove a node, and wait until that is done."""
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster did not start, or is gone: its output says why"
        return line.strip()

    def pids(self, title: str) -> list[int]:
        """The processes of its actors of this class."""
        from support.processes import marked_processes

        return sorted(pid for pid, line in marked_processes(self._mark).items() if line.startswith(f"ray::{title}"))

    def start(self, job: str, **config: Any) -> RayJob:
        """Start a job of ray_jobs.py on it."""
        self._jobs.append(RayJob(self.address, job, config))
        return self._jobs[-1]

    def stop_jobs(self) -> None:
        """End all drivers that a test has left."""
        while self._jobs:
            self._jobs.pop().stop()


class RayJob:
    """A driver of a job, running."""

    def __init__(self, address: str, job: str, config: Mapping[str, Any]) -> None:
        self.folder = Path(config["folder"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.folder / "driver.log"
        with self._log.open("w") as log:
            command = [str(PYTHON), str(Path(__file__).with_name("ray_jobs.py")), address, job, json.dumps(config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=_environ())

    def result(self, timeout_s: float = 300.0) -> Any:
        """What it came to; AssertionError with its log if it failed."""
        try:
            self._process.wait(timeout_s)
        finally:
            self.stop()
        result = self.folder / "result"
        assert result.exists(), f"the job came to nothing:\n{self.log()[-6000:]}"
        return json.loads(result.read_text())

    def stop(self) -> None:
        """End the driver, and with it the job."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        """All that its processes have written."""
        return re.sub(r"\x1b\[\d*m", "", self._log.read_text())

    def steps(self, worker: int) -> list[tuple[float, int, int]]:
        """What a worker has noted after each step: when, in which process, and the number of the step."""
        path = self.folder / f"steps-{worker}"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        rows = [line.split() for line in lines if line.endswith("\n")]
        return [(float(at), int(pid), int(step)) for at, pid, step in rows]

    def wait_for(self, step: int, *, timeout_s: float = 300.0) -> None:
        """Wait until all workers have made a step."""
        deadline = time.monotonic() + timeout_s
        while not all((self.steps(worker) or [(0, 0, 0)])[-1][2] >= step for worker in (0, 1)):
            assert self._process.poll() is None, f"the job has ended early:\n{self.log()[-6000:]}"
            assert time.monotonic() < deadline, f"no step {step} within {timeout_s} s:\n{self.log()[-6000:]}"
            time.sleep(0.05)

    def pause_s(self, since: float) -> float:
        """The longest time between two steps of worker 0, from then on."""
        times = [at for at, *_ in self.steps(0) if at > since - 1]
        return max(after - before for before, after in pairwise(times))


def _environ() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FLEET_VERIFY", "RAY_"))}
    return {**ours, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "PYTHONUNBUFFERED": "1"}


@contextmanager
def running() -> Iterator[HeldCluster]:
    """A cluster; when it ends, nothing of it is left, whatever happened."""
    from support.processes import MARK, marked_processes

    mark = f"{os.getpid()}:ray"
    folder = tempfile.mkdtemp(prefix="ray-")  # short, for the sockets in it
    (Path(folder) / "ray").mkdir()  # where it notes its address; without this in /tmp/ray, which nobody may have made
    command = [str(PYTHON), __file__, folder]
    environ = {**_environ(), MARK: mark, "RAY_TMPDIR": folder}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    try:
        yield HeldCluster(process, mark)
    finally:
        process.communicate(timeout=60)
        deadline = time.monotonic() + 20
        while (left := marked_processes(mark)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def hold(folder: str) -> None:
    """The process that holds the cluster."""
    import ray
    from ray.cluster_utils import Cluster

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints is no answer
    began = time.monotonic()
    head = {"num_cpus": 1, "include_dashboard": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=True)
    try:
        nodes = [cluster.add_node(**NODE) for _ in range(2)]
        print(f"a Ray cluster of 3 nodes has started in {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        print(cluster.address, file=answers, flush=True)
        for line in sys.stdin:
            match line.strip():
                case "add":
                    nodes.append(cluster.add_node(**NODE))
                case "drain":
                    ray.init(address=cluster.address, logging_level="ERROR")
                    from ray._raylet import GcsClient

                    client = GcsClient(address=cluster.address)
                    in_a_minute = int((time.time() + 60) * 1000)
                    print(client.drain_node(nodes[-1].node_id, 2, "a test", in_a_minute), file=sys.stderr)
                    ray.shutdown()
                case what:
                    cluster.remove_node(nodes.pop(), allow_graceful=what == "remove")
            print("done", file=answers, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    hold(sys.argv[1])
