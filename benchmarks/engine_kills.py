"""How long a synchronous job stands still on other engines when a server, a worker or a node of it is killed.

    make engines                                                   # once: installs TorchX and Ray; Slurm is Debian's
    python benchmarks/engine_kills.py --json benchmarks/results/engines.json

A job of 2 servers and 2 workers with a journal runs on each engine, as the tests of `tests/engines` have them: Ray with
three nodes, Slurm with three slurmd and a fleetrun on each of two, TorchX's `local_cwd`, and the pods of `--render k8s`
in network namespaces, where this script is the kubelet and starts a container again at once. A pause is the longest
time between two steps of worker 0, which lives, from the kill on. Slurm finds out in minutes that a node is gone: there
it is told, and the pause has its requeue in it.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import write_results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from engines import test_torchx
from engines.ray_cluster import running
from support.durable import burning_job
from support.pods import cluster
from support.processes import wait_until
from support.rendered import manifests, of_kind, text_of
from support.slurm import slurm

LIMIT_S = 120.0
FOR_EVER, PAUSE_MS = 100_000, 20
AFTER = 20
"""How many steps are made after a pause before it is over."""
Kill = Callable[[], object]


def steps(text: str) -> list[float]:
    """When each step was made."""
    return [float(at) for at in re.findall(r"^step \d+ (\S+)$", text, re.MULTILINE)]


class Killing:
    """A job that runs: what worker 0 has said, and whom one may kill."""

    def __init__(
        self, log: Callable[[], str], kills: Mapping[str, Kill], last: Mapping[str, Kill] | None = None
    ) -> None:
        """`last` are done once, at the end."""
        self._log, self._kills, self._last = log, kills, last or {}

    def pauses(self, rounds: int) -> Iterator[tuple[str, float]]:
        """Kill all in turn; who, and the longest time without a step from then on."""
        wait_until(lambda: len(steps(self._log())) > AFTER, LIMIT_S, "the first steps")
        for _ in range(rounds):
            for what, kill in self._kills.items():
                yield what, pause(self._log, kill)
        for what, kill in self._last.items():
            yield what, pause(self._log, kill)


def pause(log: Callable[[], str], kill: Kill) -> float:
    """The longest time without a step after this."""
    at = time.time()
    kill()
    wait_until(lambda: len([one for one in steps(log()) if one > at]) > AFTER, LIMIT_S, "steps after a kill")
    later = [one for one in steps(log()) if one > at]  # a job that is started again may begin its log anew
    return max(after - before for before, after in pairwise([at, *later]))


@contextmanager
def in_pods(folder: Path, rounds: int) -> Iterator[Killing]:
    """Kubernetes' manifests."""
    (folder / "train.py").symlink_to(burning_job.__file__)
    (folder / "kept").mkdir()
    words = ("--server_num", "2", "--worker_num", "2", "--durable", str(folder / "kept"), "train.py", "sync")
    found = manifests("k8s", (*words, str(FOR_EVER), str(PAUSE_MS)))
    with cluster(folder, 4 + rounds) as place:
        job = of_kind(found, "Job")
        pods = [*place.of_statefulset(found), *place.of_job(job, job["metadata"]["name"])]

        def again(which: int, *, moves: bool = False) -> None:
            pods[which].kill()
            if moves:  # its node is gone: the same name at another address
                pods[which].schedule()
            pods[which].start()

        try:
            for pod in pods:
                pod.schedule()
                pod.start()
            kills = {"server": lambda: again(0), "worker": lambda: again(3), "node": lambda: again(1, moves=True)}
            wait_until(pods[2].log.exists, LIMIT_S, "worker 0")
            yield Killing(pods[2].log.read_text, kills)
        finally:
            for pod in pods:
                pod.kill()


@contextmanager
def on_torchx(folder: Path, _: int) -> Iterator[Killing]:
    """TorchX's local scheduler, whose replicas look after their process."""
    words = ["fleet.ps", "--script", "train.py", "--servers", 2, "--workers", 2, "--durable", "kept"]
    job = test_torchx.Run(folder, *words, "--token_file", "token", "--", "sync", FOR_EVER, PAUSE_MS)

    def kill(role: str) -> None:
        os.kill(test_torchx.pid_of(folder, role, 1), signal.SIGKILL)

    try:
        yield Killing(
            lambda: job.log("worker", 0), {"server": lambda: kill("server"), "worker": lambda: kill("worker")}
        )
    finally:
        job.process.terminate()
        job.process.communicate(timeout=LIMIT_S)


@contextmanager
def on_slurm(folder: Path, _: int) -> Iterator[Killing]:
    """A job of two of three nodes, with a fleetrun on each."""
    (folder / "train.py").symlink_to(burning_job.__file__)
    words = ("--nnodes", "2", "--server_num", "1", "--worker_num", "1", "--durable", "kept", "train.py", "sync")
    with slurm(folder, 3) as place:
        job = place.submit(text_of("slurm", (*words, str(FOR_EVER), str(PAUSE_MS))))
        log = folder / "log" / "workerlog.0"
        wait_until(log.exists, LIMIT_S, "worker 0")

        def kill(variable: str) -> None:
            wanted = {f"{variable}=1".encode(), f"SLURM_CONF={place.environ['SLURM_CONF']}".encode()}
            os.kill(process_of(wanted), signal.SIGKILL)

        def lose() -> None:
            place.kill_node("n2")
            place.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=gone")
            place.go_on(job)

        kills = {"server": lambda: kill("PADDLE_PSERVER_ID"), "worker": lambda: kill("PADDLE_TRAINER_ID")}
        yield Killing(log.read_text, kills, {"node": lose})
        place.run("scancel", job)


def process_of(words: set[bytes]) -> int:
    """The process with these words in its environment, the oldest of them."""
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if words <= set((path / "environ").read_bytes().split(b"\0")):
                return int(path.name)
        except OSError:
            continue
    raise click.ClickException(f"no process has {words}")


@contextmanager
def on_ray(folder: Path, _: int) -> Iterator[Killing]:
    """Ray Train's workers beside actors that serve."""
    with running() as place:
        job = place.start("served", folder=str(folder), steps=FOR_EVER)

        def log() -> str:
            return "".join(f"step {step} {at}\n" for at, _, step in job.steps(0))

        def lose() -> None:
            place.ask("remove")

        kills: dict[str, Kill] = {
            "server": lambda: os.kill(place.pids("ServerActor")[0], signal.SIGKILL),
            "worker": lambda: os.kill(job.steps(1)[-1][1], signal.SIGKILL),
        }
        yield Killing(log, kills, {"node": lose})
        job.stop()


ENGINES: dict[str, Callable[[Path, int], AbstractContextManager[Killing]]] = {
    "pods": in_pods,
    "torchx": on_torchx,
    "slurm": on_slurm,
    "ray": on_ray,
}


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--engines", default=",".join(ENGINES), show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, engines: str, path: Path | None) -> None:
    """Run one job on each engine, and kill parts of it."""
    cases: list[dict[str, Any]] = []
    for engine in engines.split(","):
        found: dict[str, list[float]] = {}
        began = time.monotonic()
        with TemporaryDirectory() as name, ENGINES[engine](Path(name), rounds) as killing:
            for what, seconds in killing.pauses(rounds):
                found.setdefault(what, []).append(round(seconds, 2))
                click.echo(f"{engine}: {what} killed, {seconds:.2f} s without a step")
        for what, pauses in found.items():
            cases.append(
                {"engine": engine, "killed": what, "pause_s": pauses, "median_pause_s": statistics.median(pauses)}
            )
        click.echo(f"{engine}: took {time.monotonic() - began:.0f} s")
        if path is not None:
            write_results(path, cases)


if __name__ == "__main__":
    main()
