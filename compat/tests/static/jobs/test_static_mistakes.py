"""What a user of programs may get wrong is named, with the remedy, when it happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet_programs import layers
from fleet_programs.expressions import names
from fleet_programs.program.program import Program, program_guard
from fleet_programs.transpiler import DistributeTranspiler
from program_support.programs_cluster import Cluster, Trainer
from program_support.programs_models import Feed, fit_a_line, mlp

pytestmark = pytest.mark.timeout(300)
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


def changed(name: str, value: Any) -> Feed:
    feed = mlp().batch(0, 0)
    feed[name] = value
    return feed


FEEDS: dict[str, tuple[Feed, str]] = {
    "missing": (
        {"x": mlp().batch(0, 0)["x"]},
        r"feed 'y' is missing, which cross_entropy.* reads; give feed={'y': ...} of shape \[-1, 1\]",
    ),
    "shape": (
        changed("x", np.zeros((16, 31), "float32")),
        r"feed 'x' must have shape \[-1, 32\], got \[16, 31\]; reshape it",
    ),
    "rank": (changed("y", np.zeros((16, 1, 1), "int64")), r"feed 'y' must have shape \[-1, 1\], got \[16, 1, 1\]"),
    "dtype": (
        changed("x", np.zeros((16, 32))),
        r"feed 'x' must be float32, got float64; convert it with .astype\('float32'\)",
    ),
    "unknown": (changed("z", np.zeros(1)), "'z'"),
}


@pytest.mark.parametrize("kind", FEEDS)
def test_a_feed_that_does_not_fit(kind: str) -> None:
    feed, says = FEEDS[kind]
    model = mlp()
    here = Trainer(model, 0)
    here.start()
    before = here["fc_0.w_0"]
    with pytest.raises(UsageError, match=says):
        here.step(feed)
    np.testing.assert_array_equal(here["fc_0.w_0"], before)
    here.step(model.batch(0, 0))  # and nothing is broken


def test_a_fetch_of_an_unknown_name() -> None:
    here = Trainer(mlp(), 0)
    here.start()
    with pytest.raises(UsageError, match="'fc_9.tmp_0'"):
        here.executor.run(here.main, mlp().batch(0, 0), ["fc_9.tmp_0"], here.scope)


def test_a_shape_is_wrong_while_the_program_is_built() -> None:
    with names.guard(), program_guard(Program(), Program()):
        x, y = static.data("x", [None, 3]), static.data("y", [None, 4])
        with pytest.raises(UsageError, match=r"test_static_mistakes.py:\d+: .*\[-1, 3\].*\[-1, 4\]"):
            layers.elementwise_add(x, y)


def test_the_startup_program_has_not_run() -> None:
    says = "'fc_0.w_0' has no value; run the startup program first"
    here = Trainer(mlp(), 0)
    with pytest.raises(NotReadyError, match=says):
        here.train([0])
    says = r"the startup program does not initialise 'fc_0.w_0'; give transpile\(\) the one that does"
    with pytest.raises(UsageError, match=says), Cluster(mlp(), 1, prepare=lambda one: one.startup.become(Program())):
        pass


def test_transpile_without_an_optimizer() -> None:
    main = Program()
    with names.guard(), program_guard(main, Program()):
        layers.mean(layers.fc(static.data("x", [None, 3]), 1))
    with pytest.raises(UsageError, match=r"the program has no optimizer; call minimize\(\) of one before transpile"):
        DistributeTranspiler().transpile(0, program=main, pservers=SERVERS, trainers=2)


def test_an_endpoint_that_is_not_in_the_list() -> None:
    model = mlp()
    transpiler = DistributeTranspiler()
    transpiler.transpile(0, program=model.main, startup_program=model.startup, pservers=SERVERS, trainers=2)
    with pytest.raises(UsageError, match="'127.0.0.1:6176' is none of the servers 127.0.0.1:6174, 127.0.0.1:6175"):
        transpiler.get_pserver_program("127.0.0.1:6176")
    with pytest.raises(UsageError, match="the program has been transpiled already"):
        DistributeTranspiler().transpile(0, program=model.main, pservers=SERVERS, trainers=2)


def test_two_trainers_with_one_id() -> None:
    """The first is told as soon as the second has come, also while it waits for a step."""
    with pytest.raises(UsageError, match="trainer_id must be below the number of trainers, 2, got 2"):
        DistributeTranspiler().transpile(2, program=mlp().main, pservers=SERVERS, trainers=2)
    says = r"two processes are worker 0: give each an index \(trainer_id\) of its own"
    with Cluster(fit_a_line(), 1, num_trainers=2) as cluster:
        twin = Trainer(cluster.model, 0)
        twin.main.become(cluster.trainers[0].main)
        twin.startup.become(cluster.trainers[0].startup)
        waiting = cluster.submit(cluster.trainers[0].train, [0])
        twin.start()
        with pytest.raises(CommunicationError, match=says):
            waiting.result(120)
        cluster.trainers[0].joined.drop()
        cluster.trainers[0] = twin
        cluster.train([0])


def test_programs_of_server_and_trainer_that_differ() -> None:
    says = "program of server .* holds .*; transpile the same program with the same arguments everywhere"

    def smaller(trainer: Trainer) -> None:
        other = mlp(hidden=16)
        trainer.main.become(other.main)
        trainer.startup.become(other.startup)

    with pytest.raises(UsageError, match=says), Cluster(fit_a_line(), 1, prepare=smaller):
        pass
