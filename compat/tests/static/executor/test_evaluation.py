"""What a program is asked for between steps: its evaluation, also where rows are on servers, and its parameters."""

from __future__ import annotations

import numpy as np

import fleet_programs as static
from fleet.api import Fleet
from fleet_programs import layers

IDS = np.array([[3], [5], [3]])
FEED = {"ids": IDS, "y": (IDS % 2).astype(np.float32)}


def test_evaluation_finds_the_rows_of_the_servers_and_changes_none() -> None:
    main, startup = static.Program(), static.Program()
    fleet = Fleet()
    fleet.init()
    with static.scope_guard(static.Scope()), static.program_guard(main, startup), static.unique_name.guard():
        ids, y = static.data("ids", [None, 1], "int64"), static.data("y", [None, 1])
        rows = layers.embedding(ids, [10, 4], is_sparse=True, is_distributed=True)
        loss = layers.mean(layers.square_error_cost(layers.fc(rows, 1), y))
        fleet.distributed_optimizer(static.optimizer.SGD(0.1)).minimize(loss)
        testing = main.clone(for_test=True)
        exe = static.Executor()
        exe.run(startup)
        before = exe.run(testing, feed=FEED, fetch_list=[loss])[0]
        assert fleet.server_stats()[0]["tables"]["embedding_0.w_0"]["rows"] == 0
        (trained,) = exe.run(main, feed=FEED, fetch_list=[loss])
        assert before == trained
        after = [exe.run(testing, feed=FEED, fetch_list=[loss])[0] for _ in range(2)]
        assert after[0] == after[1] < trained
        fleet.stop_worker()
    fleet.shutdown()


def test_a_parameter_that_was_fetched_stays_as_it_was() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.unique_name.guard():
        loss = layers.mean(layers.fc(static.data("x", [None, 2]), 1))
        static.optimizer.SGD(1.0).minimize(loss)
    scope, exe = static.Scope(), static.Executor()
    exe.run(startup, scope=scope)
    feed = {"x": np.ones((1, 2), np.float32)}
    first, second = (exe.run(main, feed=feed, fetch_list=["fc_0.w_0"], scope=scope)[0] for _ in range(2))
    np.testing.assert_allclose(first - second, [[1.0], [1.0]], rtol=1e-6)
