"""Ids of padding stay with the trainer: servers have no row for it, and rules with state do not see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.jobs.lookups import Reader
from fleet_programs.parameters import regularizer
from fleet_programs.program.variable import Variable
from program_support.programs_cluster import Cluster
from program_support.programs_models import Feed, Model, by, make, train_here

IDS, OWN, PADDING = 6, 5, 3
STEPS = range(8)


def model(*, is_distributed: bool = False) -> Model:
    """A table whose padding is another lookup's plain id, and one of padded ids alone, which are int32.

    If that one is distributed, it is for all its ids but the padding.
    """

    def build() -> Variable:
        a, b = static.data("a", [None, 2, 1], "int32"), static.data("b", [None, 1], "int64")
        given: dict[str, Any] = {"is_sparse": True, "is_distributed": is_distributed, "size": [OWN - is_distributed, 4]}
        rows = [
            layers.embedding(b, [IDS, 4], param_attr="shared", padding_idx=PADDING, is_sparse=True),
            layers.embedding(b, [IDS, 4], param_attr="shared", is_sparse=True),
            layers.reduce_sum(layers.embedding(a, param_attr="own", padding_idx=PADDING, **given), 1),
        ]
        return layers.mean(layers.square_error_cost(layers.fc(rows, 1), static.data("y", [None, 1])))

    def batch(step: int, worker: int) -> Feed:
        random = np.random.default_rng([step, worker])
        a, b = random.integers(0, OWN, (6, 2, 1)).astype("int32"), random.integers(0, IDS, (6, 1))
        if step % 3 == worker:
            a[:] = PADDING
        return {"a": a, "b": b, "y": (b % 2).astype("float32")}

    return make(build, by(optimizer.Adam, 0.05, regularization=regularizer.L2Decay(0.1), epsilon=1e-3), batch)


@pytest.mark.timeout(300)
def test_servers_never_hear_of_padding() -> None:
    given = model()
    with Cluster(given) as cluster:
        losses = cluster.train(STEPS)
        held = cluster.held()
        wrong = {"a": np.full((6, 2, 1), OWN, "int32"), "b": np.zeros((6, 1), "int64"), "y": np.zeros((6, 1), "f4")}
        with pytest.raises(
            UsageError,
            match=r"test_programs_padding.py:\d+: lookup_table: id 5 is not in table 'own', whose ids are 0 to 4; give",
        ):
            cluster.trainers[0].step(wrong)
    np.testing.assert_allclose(losses.mean(1), train_here(given, STEPS), rtol=1e-5)
    assert held["table own, keys"].tolist() == [key for key in range(OWN) if key != PADDING]
    assert held["table shared, keys"].tolist() == list(range(IDS))


def test_padding_takes_no_row_of_the_ceiling() -> None:
    def sizes(given: Model) -> dict[str, int]:
        with Cluster(given, 1, 1) as cluster:
            assert np.isfinite(cluster.train(STEPS)).all()
            return {spec.name: spec.max_rows for spec in cluster.plan.job.tables}

    assert sizes(model(is_distributed=True)) == {"shared": 0, "own": OWN - 1}


@pytest.mark.parametrize(
    ("ids", "asked", "places"),
    [([3, 3], [], []), ([0, 3, 1], [0, 1], [0, 2]), ([0, 1], [0, 1], None), ([], [], None)],
    ids=["all padding", "some", "none", "no ids"],
)
def test_rows_and_gradients_of_the_others(ids: list[int], asked: list[int], places: list[int] | None) -> None:
    reader = Reader(["t"], [IDS], [PADDING], torch.device("cpu"))
    (read,) = reader.read([torch.tensor(ids, dtype=torch.int64)])
    assert read.real.tolist() == asked
    assert (None if read.places is None else read.places.tolist()) == places
    rows: Any = torch.ones(len(asked), 2)
    assert read.spread(rows).tolist() == [[float(one != PADDING)] * 2 for one in ids]
    gradients = torch.arange(2.0 * len(ids)).view(-1, 2)
    assert torch.equal(read.picked(gradients), gradients[[i for i, one in enumerate(ids) if one != PADDING]])
