"""What a server leaves whose tables have more rows than memory: a journal, and a snapshot with links to files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from fleet.ps.durable import durability
from fleet.ps.journal.files import runs_path, snapshots_in
from fleet.ps.server.service import Service
from support.durable.server_state import everything
from support.parity.training import Trainer, first_model, joined, served, strategy
from support.processes import wait_until

NUM_IDS = 18_000
STEPS_AFTER = 2
"""Steps after the snapshot."""


def train(one: Trainer, *steps: int) -> None:
    """Steps that together touch more rows than memory holds."""
    for step in range(*steps):
        ids = torch.randint(0, NUM_IDS, (1500, 3), generator=torch.Generator().manual_seed(step))
        one.optimizer.zero_grad()
        nn.functional.mse_loss(one.model(ids), (ids.sum(1) % 2).float()).backward()
        one.optimizer.step()
    one.fleet.flush()


def leave(folder: Path, *, shrinks: bool = False) -> tuple[Path, Any]:
    """The folder of a server that died in the middle of training, and what it knew. Needs FLEET_TABLE_DIR.

    `shrinks`: the last record of its journal deletes old rows, which reads most files.
    """
    kept, left = folder / "kept", folder / "left"
    service = Service(journal=(kept, "OS"))
    own = service.core.durability
    assert own is not None
    with (
        mock.patch.object(durability, "SNAPSHOT_BYTES", 1 << 30),
        served([service]) as (endpoints, _),
        joined(endpoints, strategy=strategy("async"), model=first_model(0, memory="1MiB")) as one,
    ):
        train(one, 8)
        snapshot_now(service)
        train(one, 8, 8 + STEPS_AFTER)
        if shrinks:
            one.fleet.shrink(unseen_steps=6)
        with own.snapshotting:
            shutil.copytree(kept, left, ignore=shutil.ignore_patterns("lock"))
            state = everything(service)
    return left, state


def snapshot_now(service: Service) -> None:
    """Have a server take a snapshot, and wait for it."""
    own = service.core.durability
    assert own is not None
    before = own.counts()["snapshots"]
    with mock.patch.object(own, "_next_at", -1):
        own._is_due.set()
        wait_until(lambda: own.counts()["snapshots"] > before, 60, "a snapshot")


def runs_in(folder: Path) -> list[Path]:
    """The files of rows that the snapshot in a folder links to."""
    return sorted(runs_path(snapshots_in(folder)[-1][1]).iterdir())
