"""A job that trains ten steps and waits, and what its log folder shows of it."""

from __future__ import annotations

import re
from pathlib import Path

from fleet_tools.watching.picture import SeenProcess, read_events, read_picture
from support.processes import wait_until

TRAIN = """
    import os, sys, time, torch, fleet
    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model = fleet.nn.Embedding(4)
    torch.manual_seed(0)
    model = fleet.distributed_model(torch.nn.Sequential(model, torch.nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1))
    fleet.init_worker()
    for step in range(fleet.steps_done(), 10):
        loss = model(torch.arange(step, step + 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fleet.report(loss=loss, step=step)
    open(f"trained.{fleet.worker_index()}.{os.getpid()}", "w").close()
    while not os.path.exists("enough"):
        time.sleep(0.01)
    fleet.save_persistables("saved")
    fleet.stop_worker()
"""


def port_of(cwd: Path, what: str) -> str:
    """The address that fleetrun has told; its words are among the events."""
    found: list[str] = []

    def is_told() -> bool:
        for event in read_events(cwd / "log"):
            found.extend(re.findall(rf"{what}: (http://\S+)", event["text"]))
        return bool(found)

    wait_until(is_told, 60, f"fleetrun to say where it has {what}")
    return found[0]


def seen_of(log: Path) -> dict[str, SeenProcess]:
    return {seen.name: seen for seen in read_picture(log).processes}


def figure(log: Path, name: str, figure: str) -> float | None:
    found = seen_of(log).get(name)
    return None if found is None else found.figures().get(figure)


def texts(log: Path) -> list[str]:
    return [event["text"] for event in read_events(log)]


def trained(cwd: Path) -> bool:
    return len(list(cwd.glob("trained.*"))) >= 2
