"""Programs with what is rare: padding, frozen and tied parameters, factors on rates, no dense parameter at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import fleet_programs as static
from fleet_programs import ParamAttr, layers, optimizer
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from program_support.programs_cluster import Cluster
from program_support.programs_models import BATCH, Feed, Model, by, ctr, make, train_here

pytestmark = pytest.mark.timeout(300)
STEPS = range(8)
TOLERANCE = 1e-5
IDS = 20


def batch(step: int, worker: int) -> Feed:
    random = np.random.default_rng([step, worker])
    ids = random.integers(0, IDS, (BATCH, 3, 1))
    word = ids[:, 0]
    return {"ids": ids, "word": word, "y": (word + ids[:, 1]) % 2, "value": (word % 3).astype("float32")}


def rare() -> Variable:
    ids, word = static.data("ids", [None, 3, 1], "int64"), static.data("word", [None, 1], "int64")
    y = static.data("y", [None, 1], "int64")
    rows = [
        layers.embedding(ids, [IDS, 4], is_sparse=True, padding_idx=3),
        layers.embedding(word, [IDS, 4], is_sparse=True, param_attr=ParamAttr(learning_rate=3.0)),
        layers.embedding(word, [IDS, 4], is_sparse=True, param_attr=ParamAttr(trainable=False)),
        layers.embedding(word, [IDS, 4], is_sparse=True, param_attr="tied_w"),
    ]
    fast, slow = ParamAttr(learning_rate=2.0), ParamAttr(learning_rate=0.5)
    hidden = layers.fc(rows, 16, act="tanh", param_attr=fast, bias_attr=slow)
    hidden = layers.fc(hidden, 4, act="tanh", param_attr=ParamAttr(trainable=False))
    following = layers.matmul(hidden, word.block.var("tied_w"), transpose_y=True)  # a weight as well: no table
    prediction = layers.fc(following, 2, act="softmax")
    layers.auc(prediction, y)
    return layers.mean(layers.cross_entropy(prediction, y))


def rows_only() -> Variable:
    word, value = static.data("word", [None, 1], "int64"), static.data("value", [None, 1])
    return layers.mean(layers.square_error_cost(layers.embedding(word, [IDS, 1], is_sparse=True), value))


def same_ids() -> Variable:
    """Lookups of one table by one variable that are requests of their own: trained and not, early and late."""
    word, value = static.data("word", [None, 1], "int64"), static.data("value", [None, 1])
    late = layers.scale(word, 1.0)
    layers.increment(late, 1)  # written twice: cannot move
    ids, paddings = [word, word, late, late], [3, None, None, 4]
    rows = [
        layers.embedding(one, [IDS + 1, 4], is_sparse=True, param_attr="w", padding_idx=padding)
        for one, padding in zip(ids, paddings, strict=True)
    ]
    rows[1].stop_gradient = True
    static.gradients(layers.mean(layers.square(rows[0])), rows[0])  # those of another loss are not what is trained by
    return layers.mean(layers.square_error_cost(layers.fc(rows, 1), value))


@pytest.mark.parametrize("build", [rare, rows_only, same_ids])
def test_trainers_in_step_equal_one_process(build: Callable[[], Variable]) -> None:
    def fed(step: int, worker: int) -> Feed:
        return {name: array for name, array in batch(step, worker).items() if model.main.global_block().has_var(name)}

    model = make(build, by(optimizer.Momentum, 0.3, 0.5), fed)
    with Cluster(model) as cluster:
        assert ("tied_w" in cluster.plan.dense) == (build is rare)
        losses = cluster.train(STEPS).mean(1)
    np.testing.assert_allclose(losses, train_here(model, STEPS), rtol=TOLERANCE)
    assert losses[-1] < losses[0]


class Read(Cluster):
    """A cluster whose server programs were written to text and read back."""

    def _programs(self, endpoint: str, endpoints: Sequence[str]) -> tuple[Program, Program]:
        main, startup = super()._programs(endpoint, endpoints)
        return Program.parse_from_string(str(main)), Program.parse_from_string(str(startup))


def test_programs_that_were_written_and_read_do_the_same() -> None:
    model: Model = ctr(hidden=160)
    with Read(model) as cluster:
        for trainer in cluster.trainers:
            trainer.main = Program.from_json(trainer.main.to_json())
        losses = cluster.train(range(2))
        for trainer in cluster.trainers:
            trainer.main = Program.parse_from_string(str(trainer.main))
        losses = [*losses.mean(1), *cluster.train(range(2, 4)).mean(1)]
    np.testing.assert_allclose(losses, train_here(model, range(4)), rtol=TOLERANCE)
