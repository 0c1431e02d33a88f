"""One network of layers: by tensors, by a program in one process, and by a program with servers and trainers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
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
STEPS = range(8)
BATCH, SLOTS, NUMBERS, IDS, WIDTH = 16, 5, 4, 40, 6


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept():
        yield


class DeepFM(nn.Layer):
    """First order, second order and a tower over the same rows, as click models of that time are written."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Embedding(IDS, 1, padding_idx=0, sparse=True, weight_attr=_attr("first"))
        self.rows = nn.Embedding(IDS, WIDTH, padding_idx=0, sparse=True, weight_attr=_attr("rows"))
        self.dense = self.create_parameter([1, NUMBERS, WIDTH], default_initializer=nn.initializer.Constant(0.1))
        sizes = [(SLOTS + NUMBERS) * WIDTH, 16, 8]
        self.tower: list[Any] = []
        for place, (inside, outside) in enumerate(pairwise(sizes)):
            self.tower.append(self.add_sublayer(f"linear_{place}", nn.Linear(inside, outside)))
            self.tower.append(self.add_sublayer(f"act_{place}", nn.ReLU()))
        self.last = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 1))

    def forward(self, ids: Any, numbers: Any) -> Any:
        first = imperative.sum(self.first(ids), 1)
        wide = imperative.multiply(imperative.unsqueeze(numbers, 2), self.dense)
        rows = imperative.concat([self.rows(ids), wide], 1)
        second = 0.5 * imperative.sum(
            imperative.square(imperative.sum(rows, 1)) - imperative.sum(imperative.square(rows), 1), 1, keepdim=True
        )
        x = imperative.reshape(rows, [-1, (SLOTS + NUMBERS) * WIDTH])
        for layer in self.tower:
            x = layer(x)
        return F.sigmoid(first + second + self.last(x))


def _attr(name: str) -> static.ParamAttr:
    return static.ParamAttr(name, nn.initializer.Uniform(-0.3, 0.3))


def batch(step: int, worker: int) -> Feed:
    random = np.random.default_rng([step, worker])
    ids = random.integers(0, IDS, (BATCH, SLOTS))
    numbers = random.standard_normal((BATCH, NUMBERS)).astype(np.float32)
    return {"ids": ids, "numbers": numbers, "y": (ids[:, :1] % 2).astype(np.float32)}


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adagrad": {"learning_rate": 0.1},
    "Adam": {"learning_rate": 0.02, "epsilon": 1e-3, "lazy_mode": True},
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_network_of_layers_trains_the_same_three_ways(kind: str) -> None:
    model, nets = _program(kind)
    here = train_here(model, STEPS)
    if kind != "Adam":  # whose rows have a count each in tables, and one for all in tensors
        np.testing.assert_allclose(_tensors(kind, model, nets[0]), here, rtol=1e-5)
    with Cluster(model) as cluster:
        assert sorted(cluster.plan.tables) == ["first", "rows"]
        np.testing.assert_allclose(cluster.train(STEPS).mean(1), here, rtol=1e-5)
        assert "rows" not in cluster.trainers[0].scope.tensors
    assert here[-1] < here[0]


def _program(kind: str) -> tuple[Model, list[DeepFM]]:
    nets = []

    def build() -> Any:
        nets.append(DeepFM())
        ids, numbers = static.data("ids", [None, SLOTS], "int64"), static.data("numbers", [None, NUMBERS])
        return _loss(nets[0](ids, numbers), static.data("y", [None, 1]))

    def minimize(loss: static.Variable) -> None:
        getattr(optimizer, kind)(parameters=nets[0].parameters(), **OPTIMIZERS[kind]).minimize(loss)

    mode.enable_static()
    model = make(build, minimize, batch)
    mode.disable_static()
    return model, nets


def _loss(guess: Any, label: Any) -> Any:
    return imperative.mean(F.binary_cross_entropy(guess, label, reduction="none"))


def _tensors(kind: str, model: Model, like: DeepFM) -> list[float]:
    scope, net = static.Scope(), DeepFM()
    static.Executor().run(model.startup.clone(), scope=scope)
    first = {place: scope.tensors[one.name].numpy().copy() for place, one in like.state_dict().items()}
    for table in ("first.weight", "rows.weight"):
        first[table][0] = 0  # which a program reads as zeros, whatever it is
    net.set_state_dict(first)
    by = getattr(optimizer, kind)(parameters=net.parameters(), **OPTIMIZERS[kind])
    losses = []
    for step in STEPS:
        fed = {name: imperative.to_tensor(array) for name, array in model.joined(step).items()}
        loss = _loss(net(fed["ids"], fed["numbers"]), fed["y"])
        losses.append(float(loss))
        loss.backward()
        by.step()
        by.clear_grad()
    return losses
