"""Recurrent layers, attention and one-sided windows: two trainers and two servers train as one process does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet_paddle import imperative, mode, optimizer
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from program_support.programs_cluster import Cluster
from program_support.programs_models import Feed, Model, make, train_here

pytestmark = pytest.mark.timeout(300)
STEPS = range(4)
BATCH, WORDS, IDS, WIDTH = 8, 6, 30, 4


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept():
        yield


class Reader(nn.Layer):
    """Words by rows of a table, read both ways, looked at, and by windows of two."""

    def __init__(self) -> None:
        super().__init__()
        attr = static.ParamAttr("rows", nn.initializer.Uniform(-0.3, 0.3))
        self.rows = nn.Embedding(IDS, WIDTH, sparse=True, weight_attr=attr)
        self.read = nn.LSTM(WIDTH, 4, direction="bidirect")
        self.again = nn.GRU(8, 6)
        self.look = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)
        self.window = nn.Conv1D(6, 3, 2, padding="SAME", data_format="NLC")
        self.last = nn.Linear(3, 1)

    def forward(self, ids: Any, lengths: Any) -> Any:
        seen, _ = self.read(self.rows(ids), sequence_length=lengths)
        seen, _ = self.again(seen)
        wide = self.window(self.look(seen))
        return F.sigmoid(self.last(imperative.mean(wide, 1)))


def batch(step: int, worker: int) -> Feed:
    random = np.random.default_rng([step, worker])
    ids = random.integers(0, IDS, (BATCH, WORDS))
    lengths = random.integers(1, WORDS + 1, BATCH)
    return {"ids": ids, "lengths": lengths, "y": (ids[:, :1] % 2).astype(np.float32)}


def program() -> Model:
    def build() -> Any:
        ids, lengths = static.data("ids", [None, WORDS], "int64"), static.data("lengths", [None], "int64")
        loss = F.binary_cross_entropy(Reader()(ids, lengths), static.data("y", [None, 1]), reduction="none")
        return imperative.mean(loss)

    def minimize(loss: static.Variable) -> None:
        optimizer.Adagrad(learning_rate=0.1).minimize(loss)

    mode.enable_static()
    return make(build, minimize, batch)


def test_two_trainers_and_two_servers_train_as_one_process() -> None:
    model = program()
    here = train_here(model, STEPS)
    with Cluster(model) as cluster:
        assert sorted(cluster.plan.tables) == ["rows"]
        np.testing.assert_allclose(cluster.train(STEPS).mean(1), here, rtol=1e-5)
    assert here[-1] < here[0]


def test_its_text_and_json_read_back() -> None:
    main = program().main
    text = str(main)
    assert str(static.Program.parse_from_string(text)) == text
    assert {"rnn(", "rnn_grad("} <= {line.strip().split(" = ")[-1].partition("(")[0] + "(" for line in text.split("\n")}
    assert static.Program.from_json(main.to_json()).to_json() == main.to_json()
