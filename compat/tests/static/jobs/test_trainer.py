"""A trainer of a program and its servers: how it leaves them, and what it never sends."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet.ps.server.service import Service
from fleet_programs.jobs import running, server
from program_support.programs_alone import Alone, feed, geo


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[Service]:
    """The servers that a worker took leave of."""
    found: list[Service] = []
    handle = Service.handle

    def noted(self: Service, method: str, *given: object) -> object:
        if method == "Leave":
            found.append(self)
        return handle(self, method, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Service, "handle", noted)
    return found


def test_a_trainer_whose_scope_is_gone_leaves_at_the_end_and_loses_nothing(left: list[Service]) -> None:
    alone = Alone(geo(100)).start()
    alone.train(range(3))
    learned = alone.scope.tensors["fc_0.w_0"].clone()
    fleet, alone = alone.fleet, None  # type: ignore[assignment]
    gc.collect()
    running.leave()
    (service,) = left
    assert service.state.holdings is not None
    held = service.state.holdings.snapshot()[0][0][: learned.numel()]
    np.testing.assert_allclose(held, learned.numpy().reshape(-1), rtol=1e-6)
    running.leave()
    assert len(left) == 1
    fleet.shutdown()


def test_each_trainer_leaves_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    said = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def stop(self) -> None:
            said.append(self.name)
            if self.name == "bad":
                raise ConnectionError("nobody there")

        def drop(self) -> None:
            said.append("dropped")
            running.discard(self)

    for name in ("good", "bad", "good"):
        running.add(Fake(name))
    with caplog.at_level(logging.WARNING):
        running.leave()
    assert sorted(said) == ["bad", "dropped", "dropped", "dropped", "good", "good"]
    assert [record.getMessage() for record in caplog.records] == [
        "a worker could not take leave of its servers: nobody there"
    ]


def test_a_local_program_cannot_train_rows_that_are_on_servers() -> None:
    alone, local = Alone().start(), Alone(None)
    with local.building():
        local.by.minimize(local.loss)
    with pytest.raises(UsageError, match="^this program trains 'rows' by itself, and .* are on servers; run it in a"):
        alone.executor.run(local.main, feed(), [local.loss], alone.scope)
    for one in (alone, local):
        one.end()


def test_a_pruned_run_asks_servers_and_sends_nothing() -> None:
    alone = Alone().start()
    alone.train(range(2))
    ids = {"ids": feed()["ids"]}
    run = partial(alone.executor.run, alone.main, ids, [alone.guess], alone.scope, use_prune=True)
    first, second = run()[0], run()[0]
    expected = alone.executor.run(alone.evaluation, ids, [alone.guess], alone.scope)[0]
    assert (first == second).all()
    assert (first == expected).all()
    assert alone.trainer.worker.num_steps == 2
    alone.end()


def test_floats_of_a_job_are_float32_whatever_torch_prefers() -> None:
    expected, other = Alone().start(), Alone()
    torch.set_default_dtype(torch.float64)
    try:
        found = other.start().train(range(3))
        other.executor.run(other.evaluation, feed(), [other.guess], other.scope)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found == expected.train(range(3))
    for one in (expected, other):
        one.end()


SCRIPT = """
import atexit, sys
from fleet.jobfiles import ending
ending.watch_exit()
atexit.register(lambda: print(ending.has_failed()))
def main():
    try:
        sys.exit(3)
    except SystemExit:
        {}
main()
{}
"""


EXITS = [
    ("raise", "", True),
    ("pass", "", False),
    ("pass", "sys.exit('bad')", True),
    ("pass", "sys.exit(0)", False),
    ("pass", "1 / 0", True),
]


@pytest.mark.parametrize(("inside", "after", "failed"), EXITS)
def test_an_exit_with_an_error_is_a_failure(inside: str, after: str, failed: bool) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(inside, after)], capture_output=True, text=True, timeout=120
    )
    assert (result.stdout, result.returncode) == (f"{failed}\n", (3 if inside == "raise" else 1) if failed else 0)


@pytest.mark.parametrize(
    ("after", "failed"),
    [*((after, failed) for inside, after, failed in EXITS if inside == "pass"), ("raise SystemExit(3)", True)],
)
def test_in_a_durable_job_an_exit_of_unknown_code_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, after: str, failed: bool
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", "kept")
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format("pass", after)], capture_output=True, text=True, timeout=120
    )
    assert result.stdout == f"{failed}\n"
    assert bool(result.returncode) == failed


def test_geo_mode_updates_nothing_by_a_gradient_that_is_no_number() -> None:
    alone = Alone(geo()).start()
    alone.train(range(2))
    before = {name: tensor.clone() for name, tensor in alone.scope.tensors.items()}
    scores = alone.scores()
    for bad in (np.nan, np.inf):
        with pytest.raises(UsageError, match="the gradients of worker 0, step 2 hold a NaN or an Inf; nothing was"):
            alone.step(2, bad)
    assert all(tensor.equal(before[name]) for name, tensor in alone.scope.tensors.items())
    assert np.array_equal(alone.scores(), scores)
    other = Alone(geo()).start()
    other.train(range(2))
    assert alone.train(range(2, 6)) == other.train(range(2, 6)), "nothing is left of the step that was given up"
    alone.end()
    other.end()
    strategy = geo()
    strategy.nonfinite_gradients = "skip"
    with pytest.raises(NotSupportedError, match="nonfinite_gradients = 'skip': in geo mode the updates are in the"):
        Alone(strategy)


def test_a_step_past_the_ceiling_of_a_table_is_taken_over_before_it_is_told() -> None:
    alone = Alone(is_distributed=True).start()
    crowd = {"ids": np.arange(100, 120).reshape(-1, 1), "y": np.ones((20, 1), np.float32)}
    with pytest.raises(UsageError, match="declared for 12 ids and now has rows for 20; end this job, and raise its"):
        alone.executor.run(alone.main, crowd, [alone.loss], alone.scope)
    worker = alone.trainer.worker
    assert worker.num_steps == 1
    ((_, (held,)),) = worker.client.pull((), dense=True).results()
    own = np.concatenate([alone.scope.tensors[name].numpy().reshape(-1) for name in alone.trainer.plan.dense])
    np.testing.assert_array_equal(np.frombuffer(held, np.float32), own)
    alone.end()  # the ceiling was told: leaving needs no second word


def test_a_server_program_serves_on_the_device_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    from fleet.ps.server import process as serving
    from fleet.ps.server import service
    from fleet_programs.transpiler import DistributeTranspiler

    alone, made = Alone(None), []
    with alone.building():
        static.optimizer.SGD(0.1).minimize(alone.loss)
    transpiler = DistributeTranspiler()
    transpiler.transpile(np.int64(0), program=alone.main, startup_program=alone.startup, pservers="127.0.0.1:7001")
    monkeypatch.setattr(server, "server_device", lambda: "cuda")
    monkeypatch.setattr(service, "Service", lambda **named: made.append(named))
    monkeypatch.setattr(serving, "serve", lambda *_: True)
    alone.executor.run(transpiler.get_pserver_program("127.0.0.1:7001"), scope=alone.scope)
    assert made[0]["device"] == "cuda"
    alone.fleet.shutdown()
