"""Branches and loops beside servers: two trainers and two servers in step equal one process."""

from __future__ import annotations

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.jobs.server_lookups import with_server_lookups
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler.planning.tables import find_tables
from program_support import trained_programs
from program_support.programs_cluster import Cluster
from program_support.programs_models import join, looped
from program_support.trained_programs import built

pytestmark = pytest.mark.timeout(120)
STEPS = range(10)


def test_a_loop_of_two_trainers_equals_one_process() -> None:
    """Parameters that only blocks read are found, rows are on servers, and the number of turns changes by step."""
    model = looped()
    assert {"u", "w", "b"} <= {var.name for var in model.main.all_parameters()}
    assert find_tables(model.main) == ["rows"]

    executor, scope = static.Executor(), static.Scope()
    alone = looped()
    executor.run(alone.startup, scope=scope)
    expected = []
    for step in STEPS:
        feed = join([alone.batch(step, worker) for worker in range(2)])
        feed["turns"] = feed["turns"][:1]
        expected.append(float(executor.run(alone.main, feed, [alone.loss], scope)[0][0]))
    with Cluster(model) as cluster:
        got = cluster.train(STEPS)
        held = {name: cluster.trainers[0][name] for name in ("u", "w", "b")}
    np.testing.assert_allclose(np.mean(got, 1), expected, rtol=1e-5)
    for name in ("u", "w", "b"):
        np.testing.assert_allclose(held[name], scope.tensors[name].numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
    assert expected[-1] < expected[0]


def test_a_distributed_table_inside_a_loop_is_refused() -> None:
    def minimize() -> None:
        ids, n = layers.data("ids", [1], dtype="int64"), layers.fill_constant([1], "int64", 2)

        def body(i: Variable, total: Variable) -> tuple[Variable, Variable]:
            return i + 1, total + layers.embedding(ids, [50, 4], is_distributed=True, is_sparse=True, param_attr="far")

        begin = [layers.fill_constant([1], "int64", 0), layers.fill_constant([1, 4], "float32", 0.0)]
        _, total = layers.while_loop(lambda i, _: i < n, body, begin)
        optimizer.SGD(0.1).minimize(layers.mean(total))

    with pytest.raises(UsageError, match="'far' is distributed, and a branch or loop looks it up"):
        find_tables(built(minimize)[0])


def test_an_evaluation_that_looks_rows_of_servers_up_inside_a_loop_is_refused() -> None:
    block = trained_programs.looped()[0].clone(for_test=True).global_block()
    assert with_server_lookups(block.ops, block, {"before"})[0].type == "fill_constant"
    with pytest.raises(UsageError, match="while of this program looks up 'inside' in a branch or loop"):
        with_server_lookups(block.ops, block, {"inside"})
