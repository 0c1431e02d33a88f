"""How a program is cut changes no bit of what it learns: slices, dispatchers, number of servers, tables of any ids."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler import HashName, PSDispatcher, memory_optimize
from program_support.programs_cluster import Cluster
from program_support.programs_models import BATCH, SLOTS, Feed, Model, by, ctr, make

pytestmark = pytest.mark.timeout(300)
STEPS = range(4)
HIDDEN = 160
"""So many that the first layer is cut: into two blocks on two servers, three on three."""


class ByName(PSDispatcher):
    """A user's own."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        plain = [var.name.replace("@GRAD", "").split(".trainer_")[0] for var in varlist]
        return [self.eps[zlib.adler32(name.encode()) % len(self.eps)] for name in plain]


CUTS: dict[str, dict[str, Any]] = {
    "one server": {"num_servers": 1},
    "three servers": {"num_servers": 3},
    "whole": {"slice_var_up": False},
    "by hash": {"config": {"split_method": HashName}},
    "by a user's class": {"config": {"split_method": ByName}},
    "with little memory": {"prepare": lambda trainer: memory_optimize(trainer.main, skip_grads=True)},
}


def test_every_cut_learns_the_same_to_the_last_bit() -> None:
    model = ctr(hidden=HIDDEN)
    with Cluster(model) as cluster:
        expected, held = cluster.train(STEPS), cluster.held()
        cut = {block.parameter for block in cluster.plan.job.dense.blocks if block.begin}
        assert cut == {"fc_0.w_0", "fc_1.w_0"}, "larger than two blocks"
    for name, given in CUTS.items():
        with Cluster(model, **given) as cluster:
            np.testing.assert_array_equal(cluster.train(STEPS), expected, err_msg=name)
            for what, array in cluster.held().items():
                np.testing.assert_array_equal(array, held[what], err_msg=f"{name}: {what}")


def test_a_step_is_one_pull_and_one_push_for_each_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lookups, tables and parameters there are."""
    monkeypatch.setenv("FLEET_LOCAL_TRANSPORT", "GRPC")  # where the service hears of every call
    with Cluster(ctr(hidden=HIDDEN)) as cluster:
        assert len(cluster.trainers[0].main.global_block().ops[0].output("Out")) == SLOTS + 1
        before = [calls.copy() for calls in cluster.calls]
        cluster.train(STEPS)
        asked = [dict(calls - earlier) for calls, earlier in zip(cluster.calls, before, strict=True)]
    assert asked == [{"Pull": 2 * len(STEPS), "Push": 2 * len(STEPS)}] * 2


def anywhere(num_ids: int, dict_size: int) -> Model:
    """A distributed table with ids from all over int64."""

    def build() -> Variable:
        ids, y = static.data("ids", [None, 1], "int64"), static.data("y", [None, 1], "int64")
        rows = layers.embedding(ids, [dict_size, 8], is_distributed=True, is_sparse=True)
        hidden = layers.fc(rows, 32, act="relu")
        return layers.mean(layers.cross_entropy(layers.fc(hidden, 2, act="softmax"), y))

    def batch(step: int, worker: int) -> Feed:
        small = np.random.default_rng([step, worker]).integers(0, num_ids, (BATCH, 1))
        return {"ids": small * 4611686018427 - 2**60, "y": small % 2}

    return make(build, by(optimizer.Adagrad, 0.3), batch)


def test_rows_of_a_distributed_table_are_on_servers_only() -> None:
    model = anywhere(20, 25)
    losses = []
    for num_servers in (2, 1, 3):
        with Cluster(model, num_servers) as cluster:
            losses.append(cluster.train(range(20)))
            keys = cluster.held()["table embedding_0.w_0, keys"]
            sizes = [len(service.state.holdings.tables[0]) for service in cluster.services if service.state.holdings]
            assert all("embedding_0.w_0" not in trainer.scope for trainer in cluster.trainers)
        assert keys.tolist() == [small * 4611686018427 - 2**60 for small in range(20)]
        assert sum(sizes) == 20
        assert min(sizes) > 0
    np.testing.assert_array_equal(losses[0], losses[1])
    np.testing.assert_array_equal(losses[0], losses[2])
    assert losses[0][-3:].mean() < 0.5 * losses[0][:3].mean()


def test_more_ids_than_a_distributed_table_is_for() -> None:
    says = "table 'embedding_0.w_0' is declared for 25 ids and now has rows for .*; end this job, and raise"
    with pytest.raises(UsageError, match=says), Cluster(anywhere(1000, 25)) as cluster:
        cluster.train(STEPS)
