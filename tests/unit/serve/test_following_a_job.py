"""What is served is what the servers of a job have, row by row, whatever changes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fleet.ps.server.service import Service
from fleet_serve.doors.answers import Answers
from fleet_serve.following import follower as following
from fleet_serve.following.follower import Follower
from fleet_serve.rows.model import load_model
from support.parity.training import first_model, joined, served
from support.serving.follower import dense_of, tables_of

LIMIT_S = 60.0


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:g} s for {what}"
        time.sleep(0.005)


def equals(answers: Answers, services: Sequence[Service]) -> bool:
    """Whether each row and each layer of the servers is served, to the bit, and no other row."""
    if not answers.has_model:
        return False
    layers = answers.model().dense
    if not all(np.array_equal(layers[name], values) for name, values in dense_of(services).items()):
        return False
    tables = tables_of(services)
    for table, rows in tables.items():
        keys = np.array([*rows, 987_654_321], np.int64)
        (found,), _ = answers.lookup("test", [(table, keys)])
        if found.num_unseen != 1 or [row.tobytes() for row in found.rows[:-1]] != list(rows.values()):
            return False
    return True


def test_a_replica_has_what_the_servers_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.05)
    monkeypatch.setattr(following, "LOOK_S", 0.02)
    answers = Answers(1 << 30)
    with served(2) as (endpoints, services), joined(endpoints, model=first_model()) as one:
        follower = Follower(
            str(tmp_path / "stream"),
            lambda folder, numbers: load_model(folder, tmp_path / "cache", numbers=numbers, has_layers=True),
            answers,
        )
        follower.start()
        try:
            one.fleet.publish(tmp_path / "stream", every_s=0.02)
            for step in range(0, 10, 2):
                one.train(step, step + 2)
                until(lambda: equals(answers, services), f"what step {step} has changed")
            one.fleet.shrink(unseen_steps=6)
            until(lambda: equals(answers, services), "the deleted rows to be gone")
            one.fleet.save_persistables(tmp_path / "saved")
            one.train(10, 12)
            one.fleet.load_model(tmp_path / "saved")  # no batch says what a load changes: a base does
            one.train(12, 14)
            until(lambda: equals(answers, services), "what was loaded")
            assert follower.state.num_bases > 1
            assert follower.state.lag_s < LIMIT_S
        finally:
            follower.stop()
