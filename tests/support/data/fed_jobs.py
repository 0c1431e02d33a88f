"""Durable jobs that read a stream of NATS or Kafka, of which processes are killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import torch

from support.data.brokers import NatsServer
from support.jobs import LIMIT_S, RunningJob, script
from support.processes import wait_until

NUM_RECORDS = 1600

# `ads` counts the records that each row was trained on; `users` and the layer depend on the order of all.
WORK = f"""
    import os, sys, time
    import torch
    from torch import nn
    import fleet
    from fleet_tools.streams import nats_stream

    nats_stream.MOST_AT_ONCE = 30  # so that a batch is made of several chunks
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = "async" in sys.argv
    strategy.publish = "".join(one.removeprefix("publish=") for one in sys.argv if one.startswith("publish="))
    strategy.publish_every_s = 0.05
    fleet.init(strategy=strategy)
    name = f"server.{{fleet.server_index()}}" if fleet.is_server() else f"worker.{{fleet.worker_index()}}"
    with open(f"{{name}}.pid.part", "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    os.rename(file.name, f"{{name}}.pid")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            zeros, ones = fleet.initializers.Constant(0.0), fleet.initializers.Constant(1.0)
            self.ads = fleet.nn.Embedding(1, table="ads", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)
            self.users = fleet.nn.Embedding(2, table="users", rule=fleet.rules.Adagrad(lr=0.1), initializer=ones)
            self.last = nn.Linear(2, 1, bias=False)
            nn.init.ones_(self.last.weight)

        def forward(self, ids):
            of_users = self.last(self.users(ids[:, 0] % 50))
            return (of_users - ids % 3).square().mean() - self.ads(ids).sum()

    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    if fleet.is_server():
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    schema = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False)], columns=["id"])
    is_live = "live" in sys.argv
    feed = fleet.data.Feed(most={NUM_RECORDS}) if is_live else fleet.data.Feed(idle_s=0, dead_letters="dead")
    data = fleet.data.files(sys.argv[1], schema, 16, shuffle=True, follow=feed, bad=0.1)
    for batch in fleet.prefetch(data, model, keys=lambda batch: {{"ads": batch.ids}}) if is_live else data:
        optimizer.zero_grad()
        model(batch.ids).backward()
        optimizer.step()
        with open(f"{{name}}.part", "w") as file:
            file.write(f"{{fleet.steps_done()}}\\n")
        os.rename(file.name, f"{{name}}.at")
        time.sleep(0.01)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        with torch.no_grad():
            found = model.ads(torch.arange({NUM_RECORDS})), model.users(torch.arange(50)), model.last.weight
        torch.save([one.detach().clone() for one in found], "out.pt")
    fleet.barrier_worker()
    fleet.stop_worker()
"""


def job(folder: Path, url: str, *how: str) -> RunningJob:
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["--server_num", 2, "--worker_num", 2, "--durable", "kept", script(folder, WORK), url]
    return RunningJob([*arguments, *how], folder, {"OMP_NUM_THREADS": "1"}, warm=True)


def at(running: RunningJob, name: str, step: int) -> None:
    """Wait until a worker has made so many steps."""
    file = running.cwd / f"{name}.at"

    def is_there() -> bool:
        return (file.exists() and int(file.read_text()) >= step) or running.ends_within(0)

    wait_until(is_there, LIMIT_S, f"step {step} of {name}")


def kill(running: RunningJob, name: str) -> None:
    """Kill a process, once it is there; none, if the job has ended."""
    file = running.cwd / f"{name}.pid"
    wait_until(lambda: file.exists() or running.ends_within(0), LIMIT_S, f"the next life of {name}")
    if not file.exists():
        return
    number = int(file.read_text())
    file.unlink()  # by its next life it is written again
    with suppress(ProcessLookupError):  # it has just done its last step
        os.kill(number, signal.SIGKILL)


def end(running: RunningJob) -> list[torch.Tensor]:
    result = running.finish()
    assert result.code == 0, result.err
    found: list[torch.Tensor] = torch.load(running.cwd / "out.pt")
    return found


def fill(server: NatsServer, rows: range) -> None:
    """Records whose ids are their numbers, over four partitions."""
    server.publish((f"clicks.{row % 4}", b"%d" % row) for row in rows)
