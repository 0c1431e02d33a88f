"""A model that answers while it learns: clicks of a broker, a durable job, a stream of changes, two replicas.

    python examples/online/run.py                  a minute and a half; then a table, and build/online/online.png
    python examples/online/run.py --seconds 40 --broker nats://127.0.0.1:4222    with a NATS server of your own

Taste drifts (taste.py). Once a second new impressions are scored by rows that a replica gives, and by the rows of the
last full "hour" of the example, as a checkpoint would hold them. One replica is killed, and started again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from taste import ITEMS, SEGMENTS, Taste, auc

import fleet
from fleet.errors import FleetError
from fleet_serve.client import ServingClient

HERE, BIN = Path(__file__).parent, Path(sys.executable).parent
LIMIT_S = 60.0
TRIED = 2000
"""Impressions that are scored each second."""
CHUNK_S = 0.05
PARTITIONS = 2
KEYS = {
    "segment": np.asarray(fleet.data.hash_ids("segment", [str(n) for n in range(SEGMENTS)]), np.int64),
    "item": np.asarray(fleet.data.hash_ids("item", [str(n) for n in range(ITEMS)]), np.int64),
}
Rows = dict[str, NDArray[np.float32]]


class Process:
    """A process of the example, ended with it."""

    def __init__(self, command: list[Any], log: Path, **how: Any) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(list(map(str, command)), stdout=file, stderr=subprocess.STDOUT, **how)

    def wait_for(self, what: str, found: Any) -> Any:
        """Wait until `found()` is true, and return that; end with the log's last lines if the process ends before."""
        end = time.monotonic() + LIMIT_S
        while not (value := found()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{what} did not come:\n" + "\n".join(self.log.read_text().splitlines()[-10:]))
            time.sleep(0.05)
        return value

    def end(self, limit_s: float = 20.0) -> int:
        """Ask it to end; kill it if it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Replica:
    """One fleet-serve; killed and started again."""

    def __init__(self, number: int, stream: Path, folder: Path) -> None:
        self._number, self._stream, self._folder = number, stream, folder
        self.start()

    def start(self) -> None:
        command = [BIN / "fleet-serve", "--follow", self._stream, "--listen", "127.0.0.1:0", "--http", "none"]
        command += ["--cache", self._folder / f"cache-{self._number}"]
        self._process = Process(command, self._folder / f"replica-{self._number}.log")
        said = self._process.wait_for("a replica", self._listening)
        self.client = ServingClient(said, timeout_s=2.0)

    def _listening(self) -> str:
        lines = self._process.log.read_text().splitlines()
        said = next((line for line in lines if line.startswith("fleet-serve listening on ")), "")
        return said.removeprefix("fleet-serve listening on ").split(" ")[0]

    def kill(self) -> None:
        self._process.process.kill()
        self._process.process.wait()
        self.client.close()

    def end(self) -> None:
        self._process.end()
        self.client.close()


class Clicks(threading.Thread):
    """Sends clicks to the broker, until it is stopped."""

    def __init__(self, broker: str, taste: Taste, rate: int) -> None:
        super().__init__(name="clicks", daemon=True)
        self._broker, self._taste, self._rate = broker, taste, rate
        self._over = threading.Event()
        self.num_sent = 0
        self.failure = ""

    def make(self) -> None:
        """Make the stream of the broker."""
        asyncio.run(self._with(self._make))

    def run(self) -> None:
        try:
            asyncio.run(self._with(self._send))
        except Exception as error:  # told by the main thread
            self.failure = str(error) or repr(error)

    def stop(self) -> None:
        self._over.set()
        self.join()

    async def _with(self, work: Any) -> None:
        import nats

        client = await nats.connect(self._broker)
        try:
            await work(client.jetstream())
        finally:
            await client.close()

    async def _make(self, js: Any) -> None:
        await js.add_stream(name="clicks", subjects=[f"clicks.{n}" for n in range(PARTITIONS)])

    async def _send(self, js: Any) -> None:
        random, begun = np.random.default_rng(1), time.time()
        while not self._over.is_set():
            due = int((time.time() - begun) * self._rate) - self.num_sent
            chosen = np.stack(self._taste.clicks(max(due, 0), time.time(), random), 1)
            sent = [
                await js.publish_async(f"clicks.{n % PARTITIONS}", f"{click}\t{segment}\t{item}".encode())
                for n, (segment, item, click) in enumerate(chosen.tolist())
            ]
            await asyncio.gather(*sent)
            self.num_sent += len(sent)
            await asyncio.sleep(CHUNK_S)


class Scores:
    """What is scored each second, by rows of now and by those of the last hour."""

    def __init__(self, taste: Taste, replicas: list[Replica], hour_s: float) -> None:
        self._taste, self._replicas, self._hour_s = taste, replicas, hour_s
        self._random = np.random.default_rng(2)
        self._hourly: Rows | None = None
        self._saved_at = 0.0
        self.points: list[dict[str, float]] = []
        self.num_failed_over = 0

    def look(self, at_s: float) -> None:
        """Score impressions of this moment."""
        rows, lag_s = self._rows()
        if self._hourly is None or at_s >= self._saved_at + self._hour_s:
            self._hourly, self._saved_at = rows, at_s
        now = time.time()
        segment, item, click = self._taste.clicks(TRIED, now, self._random)
        by = {"stream": rows, "hourly": self._hourly}
        found = {name: auc((one["segment"][segment] * one["item"][item]).sum(1), click) for name, one in by.items()}
        best = auc(self._taste.logits(segment, item, now), click)
        self.points.append({"s": at_s, **found, "best": best, "lag_s": lag_s})

    def _rows(self) -> tuple[Rows, float]:
        """From the replica whose turn it is, or the next that answers."""
        turn = len(self.points)
        for number in range(len(self._replicas)):
            client = self._replicas[(turn + number) % len(self._replicas)].client
            try:
                rows, _ = client.lookup(KEYS)
                return rows, client.info().lag_s
            except (FleetError, ValueError):  # gone, or not ready
                self.num_failed_over += 1
        raise SystemExit("no replica answers; their logs are beside the plot")


def main(args: argparse.Namespace) -> None:
    folder = args.out.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stream, taste, console = folder / "stream", Taste(), Console()
    with ExitStack() as stack:
        broker = args.broker or start_broker(stack, folder)
        clicks = Clicks(broker, taste, args.rate)
        clicks.make()
        command = [BIN / "fleetrun", "--server_num", 2, "--worker_num", 2, "--durable", folder / "kept"]
        command += ["--log_dir", folder / "log", HERE / "train.py", f"{broker}/clicks", stream]
        job = Process(command, folder / "job.log", env={**os.environ, "OMP_NUM_THREADS": "1"})
        stack.callback(job.end)
        clicks.start()
        stack.callback(clicks.stop)
        job.wait_for("the stream of changes", (stream / "stream.json").exists)
        replicas = [Replica(number, stream, folder) for number in range(2)]
        for replica in replicas:
            stack.callback(replica.end)
            job.wait_for("a replica that is ready", lambda one=replica: one.client.info().is_ready)
        scores = watch(Scores(taste, replicas, args.hour), replicas, clicks, args.seconds)
        clicks.stop()
        code = job.process.wait(LIMIT_S)
        if code:
            raise SystemExit(f"the job ended with code {code}: {folder / 'job.log'}")
    tell(console, scores, clicks.num_sent, args.hour)
    plot(console, scores.points, folder / "online.png", args.hour)


def start_broker(stack: ExitStack, folder: Path) -> str:
    """A NATS server of the example's own."""
    binary = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/bin")
    if binary is None:
        raise SystemExit("there is no nats-server; install it (Debian: apt install nats-server), or give --broker URL")
    command = [binary, "-a", "127.0.0.1", "-p", -1, "-js", "-sd", folder / "nats", "--ports_file_dir", folder]
    broker = Process(command, folder / "broker.log")
    stack.callback(broker.end)
    file = folder / f"nats-server_{broker.process.pid}.ports"
    broker.wait_for("the broker", lambda: file.exists() and file.read_bytes().endswith(b"}"))
    return str(json.loads(file.read_text())["nats"][0])


def watch(scores: Scores, replicas: list[Replica], clicks: Clicks, seconds: float) -> Scores:
    """Score once a second; replica 0 is killed after a third of the time, and back after half of it."""
    begun = time.monotonic()
    blows = [(seconds / 3, replicas[0].kill), (seconds / 2, replicas[0].start)]
    with Progress() as progress:
        task = progress.add_task("", total=seconds)
        while (at_s := time.monotonic() - begun) < seconds:
            if clicks.failure:
                raise SystemExit(f"clicks cannot be sent: {clicks.failure}")
            if blows and at_s > blows[0][0]:
                blows.pop(0)[1]()
            scores.look(at_s)
            last = scores.points[-1]
            text = f"AUC {last['stream']:.3f}, hourly {last['hourly']:.3f}, best {last['best']:.3f}"
            progress.update(task, completed=at_s, description=text)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun - at_s)))
    return scores


def tell(console: Console, scores: Scores, num_clicks: int, hour_s: float) -> None:
    points = scores.points[len(scores.points) // 4 :]  # the model has learnt something by then
    table = Table(title=f"{num_clicks} clicks; an hour is {hour_s:g} s", title_justify="left")
    for column in ("served", "AUC"):
        table.add_column(column)
    for name, title in (("stream", "by the stream"), ("hourly", "by hourly checkpoints"), ("best", "at best")):
        table.add_row(title, f"{statistics.mean(point[name] for point in points):.3f}")
    console.print(table)
    lags = sorted(point["lag_s"] for point in points)
    console.print(
        f"behind the job: {statistics.median(lags):.2f} s in the median, {lags[-1]:.2f} s at most; "
        f"a replica did not answer {scores.num_failed_over} times, and the other one did"
    )


def plot(console: Console, points: list[dict[str, float]], path: Path, hour_s: float) -> None:
    path.with_suffix(".json").write_text(json.dumps(points))
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        console.print(f"{path.with_suffix('.json')} has the points; for a plot: pip install matplotlib")
        return
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 6), height_ratios=[2, 1])
    for name, label in (("best", "at best"), ("stream", "stream"), ("hourly", f"checkpoints each {hour_s:g} s")):
        above.plot([point["s"] for point in points], [point[name] for point in points], label=label)
    above.set_ylabel("AUC of what is served")
    above.legend()
    below.plot([point["s"] for point in points], [point["lag_s"] for point in points])
    below.set_ylabel("seconds behind")
    below.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path)
    console.print(f"plot: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90.0, help="how long it scores (90)")
    parser.add_argument("--hour", type=float, default=20.0, help="seconds between two checkpoints (20)")
    parser.add_argument("--rate", type=int, default=3000, help="clicks a second (3000)")
    parser.add_argument("--broker", help="nats://HOST:PORT with JetStream; a new one by default")
    parser.add_argument("--out", type=Path, default=Path("build/online"), help="its folder, emptied (build/online)")
    main(parser.parse_args())
