"""A sparse lookup's parameter that cannot be a table: one process counts its rows, servers its blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fleet_programs as static
from fleet_programs import layers, optimizer
from fleet_programs.program.variable import Variable
from program_support.programs_cluster import Cluster, Trainer
from program_support.programs_models import Feed, Model, by, go_on_here, make, train_here

pytestmark = pytest.mark.timeout(300)
HEIGHT, WIDTH = 160, 128
"""So large that two servers share it."""


def model() -> Model:
    """Something besides the lookup reads the parameter, without a gradient; every row is in every step."""

    def build() -> Variable:
        ids = static.data("ids", [None, 1], "int64")
        rows = layers.embedding(ids, [HEIGHT, WIDTH], is_sparse=True, param_attr="w")
        size = layers.mean(layers.square(rows.block.var("w")))
        size.stop_gradient = True
        guess = layers.fc(layers.elementwise_add(rows, size), 1)
        return layers.mean(layers.square_error_cost(guess, static.data("y", [None, 1])))

    def batch(step: int, worker: int) -> Feed:
        ids = np.arange(worker * HEIGHT // 2, (worker + 1) * HEIGHT // 2)[:, None]
        return {"ids": ids, "y": ((ids + step) % 3).astype("float32")}

    return make(build, by(optimizer.Adam, 0.01, epsilon=1e-3), batch)


def test_servers_count_blocks_and_a_process_goes_on_by_row(tmp_path: Path) -> None:
    given = model()
    assert given.main.global_block().var("w_step_0").shape == (HEIGHT,)
    with Cluster(given) as cluster:
        assert [block.server for block in cluster.plan.job.dense.blocks if block.parameter == "w"] == [0, 1]
        losses = cluster.train(range(6))
        with static.scope_guard(cluster.trainers[0].scope):
            static.io.save_persistables(cluster.trainers[0].executor, tmp_path, cluster.trainers[0].main)
    expected = train_here(given, range(10))
    np.testing.assert_allclose(losses.mean(1), expected[:6], rtol=1e-5)
    here = Trainer(given, 0)
    here.start()
    with static.scope_guard(here.scope):
        static.io.load_persistables(here.executor, tmp_path, given.main)
    assert set(here["w_step_0"].tolist()) == {6}
    np.testing.assert_allclose(go_on_here(given, here.executor, here.scope, range(6, 10)), expected[6:], rtol=1e-5)


def test_a_trainer_that_updates_by_itself_counts_every_row() -> None:
    geo = {"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 2}
    with Cluster(model(), config=geo) as cluster:
        assert np.isfinite(cluster.train(range(4))).all()
        counts = cluster.trainers[0]["w_step_0"]
    assert counts.tolist() == [4] * HEIGHT
