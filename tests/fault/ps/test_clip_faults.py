"""A durable job whose steps have a largest norm: killed between the norm and its application, the run is the same."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from support.jobs import RunningJob, fleetrun, script

pytestmark = pytest.mark.timeout(300)

# Each moment is met once: whoever dies there leaves a file. Server 1 has heard the sum of step 5 and not applied it,
# server 0 has applied step 9 and told nobody, worker 1 has added up step 13, both workers have added up step 17 and
# told nobody, and one of them has told server 0 alone the sum of step 21.
TRAIN = """
    import os, signal, time
    import torch
    from torch import nn
    import fleet
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.server.clipping import StepClipping

    def seen(moment):
        while moment and "FLEET_DURABLE" in os.environ and not os.path.exists(moment):
            time.sleep(0.01)

    def die(moment, other=""):
        if "FLEET_DURABLE" in os.environ and not os.path.exists(moment):
            open(moment, "w").close()
            seen(other)
            os.kill(os.getpid(), signal.SIGKILL)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = fleet.nn.Embedding(4), fleet.nn.Embedding(6)
            self.hidden, self.out = nn.Linear(10, 2000), nn.Linear(2000, 1)
            self.branch = nn.Linear(4, 4)

        def forward(self, ids, step):
            users = self.users(ids).mean(1)
            users = users + self.branch(users) if step % 2 else users
            return self.out(self.hidden(torch.cat([users, self.items(ids % 7).mean(1)], 1)).tanh()).squeeze(1)

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.clip_norm = 0.05
    fleet.init(strategy=strategy)
    if fleet.is_server():
        def answered(settling, header, tensors, answer=StepClipping.answer):
            if header.is_told and header.step == 5 and fleet.server_index() == 1:
                die("server-1-at-5")
            found = answer(settling, header, tensors)
            if header.is_told and header.step == 9 and fleet.server_index() == 0:
                die("server-0-at-9")
            return found

        StepClipping.answer = answered
        fleet.init_server()
        fleet.run_server()
        raise SystemExit
    me = fleet.worker_index()

    def asked(client, method, header, *others, ask=Client.ask, **more):
        first = header(0)
        if method == "Norm" and first.is_told:
            # the one that is not to die speaks second, or the other would have nothing left to tell
            seen({(13, 0): "worker-1-at-13", (21, 1): "worker-0-at-21"}.get((first.step, me), ""))
            if (first.step, me) == (13, 1):
                die("worker-1-at-13")
            if first.step == 17:
                die(f"worker-{me}-at-17", f"worker-{1 - me}-at-17")
            if (first.step, me) == (21, 0):
                ask(client, method, header, *others, servers=[0], **more)
                die("worker-0-at-21")
        return ask(client, method, header, *others, **more)

    Client.ask = asked
    torch.manual_seed(0)
    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.01))
    fleet.init_worker()
    for step in range(fleet.steps_done(), 26):
        generator = torch.Generator().manual_seed(1000 * step + me)
        ids = torch.randint(0, 50, (16, 3), generator=generator)
        (model(ids, step) - torch.rand(16, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    fleet.save_persistables("model")
    fleet.stop_worker()
"""
MOMENTS = {"server-1-at-5", "server-0-at-9", "worker-1-at-13", "worker-0-at-17", "worker-1-at-17", "worker-0-at-21"}


def saved(folder: Path) -> dict[tuple[str, str], bytes]:
    """Every tensor of a checkpoint, bit for bit."""
    files = list(folder.glob("*.safetensors"))
    return {(path.name, name): array.tobytes() for path in files for name, array in load_file(path).items()}


def test_whoever_dies_between_the_norm_and_its_application(tmp_path: Path) -> None:
    job = ["--server_num", 2, "--worker_num", 2]
    for name in ("alone", "killed"):
        (tmp_path / name).mkdir()
    alone = fleetrun(*job, script(tmp_path / "alone", TRAIN), cwd=tmp_path / "alone", warm=True)
    assert alone.code == 0, alone.err
    killed = [*job, "--durable", "kept", script(tmp_path / "killed", TRAIN)]
    with RunningJob(killed, tmp_path / "killed", warm=True) as running:
        result = running.finish()
    assert result.code == 0, result.err
    assert result.err.count(f"was killed by {signal.SIGKILL.name}; started again") == len(MOMENTS), result.err
    assert {path.name for path in (tmp_path / "killed").iterdir()} >= MOMENTS
    one, other = saved(tmp_path / "alone/model"), saved(tmp_path / "killed/model")
    assert one == other
    assert one
