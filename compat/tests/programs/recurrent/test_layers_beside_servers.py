"""Recurrent and sampled layers train on servers as in one process: their parameters are dense ones like any other."""

from __future__ import annotations

import numpy as np

import fleet_programs as static
from fleet.api import Fleet
from fleet_paddle.programs import layers as more
from fleet_programs import layers

FEED = {
    "words": (np.array([[3], [1], [4], [1], [5]]), np.array([0, 2, 2, 5])),
    "tags": (np.array([[0], [1], [1], [0], [1]]), np.array([0, 2, 2, 5])),
    "label": np.array([[1], [0], [3]]),
    "shown": np.ones((3, 4), np.float32),
}


def losses(fleet: Fleet | None) -> list[float]:
    scope, executor = static.Scope(), static.Executor()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 3
    with static.program_guard(main, startup), static.unique_name.guard():
        words = static.data("words", [None, 1], "int64", lod_level=1)
        tags = static.data("tags", [None, 1], "int64", lod_level=1)
        rows = layers.embedding(words, [9, 4], is_sparse=True)
        there, _ = more.dynamic_lstm(layers.fc(rows, 16), 16)
        back = more.dynamic_gru(layers.fc(rows, 12), 4, is_reverse=True)
        both = layers.concat([there, back], axis=1)
        crf = more.linear_chain_crf(layers.fc(both, 2), tags, static.ParamAttr("crf"))
        shown = more.data_norm(static.data("shown", [None, 4]))
        pooled = layers.concat([layers.sequence_pool(both, "sum"), shown], 1)
        label = static.data("label", [None, 1], "int64")
        sampled = more.nce(pooled, label, 20, num_neg_samples=4, seed=5, is_sparse=True)
        loss = layers.mean(layers.elementwise_add(crf, sampled))
        optimizer = static.optimizer.Adagrad(0.1)
        (fleet.distributed_optimizer(optimizer) if fleet is not None else optimizer).minimize(loss)
    with static.scope_guard(scope):
        executor.run(startup)
        found = [float(executor.run(main, FEED, [loss])[0][0]) for _ in range(4)]
        if fleet is not None:
            fleet.stop_worker()
            fleet.shutdown()
    return found


def test_the_same_losses_as_in_one_process() -> None:
    fleet = Fleet()
    fleet.init()
    there, here = losses(fleet), losses(None)
    np.testing.assert_allclose(there, here, rtol=1e-5)
    assert there[-1] < there[0]
