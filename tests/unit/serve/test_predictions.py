"""Whole predictions: an exported model and the rows and layers that are served give what the model itself gives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.data import Schema
from fleet.errors import CheckpointError, UsageError
from fleet.net import LOOPBACK, Endpoint
from fleet.nn import Embedding
from fleet_serve.client import ServingClient
from fleet_serve.doors.answers import Answers
from fleet_serve.doors.grpc_door import GrpcDoor
from fleet_serve.doors.json_forms import predict
from fleet_serve.predict.exporting import export_for_serving
from fleet_serve.predict.predictor import Predictor
from fleet_serve.rows.model import DenseChange, ServedModel, TableChange, load_model
from support.parity.training import joined
from support.serving.served_models import save_copy

SCHEMA = Schema(label="click", numbers=["age"], categories=["user", "item"])
TOKEN = "the-token-of-the-job"


class Clicks(nn.Module):
    """Two tables, one of them pooled, a buffer, layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Embedding(4, unseen="initial")
        self.bags = Embedding(3, table="bags/of", pooling="mean")
        self.norm = nn.BatchNorm1d(12)
        self.out = nn.Linear(12, 1)

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        """Scores of ids [B, 2] and numbers [B, 1]."""
        found = torch.cat([self.rows(ids).flatten(1), self.bags(ids), dense], 1)
        scores: torch.Tensor = self.out(self.norm(found)).squeeze(1)
        return scores


class Exported(NamedTuple):
    """A trained model's folder, its program, and what it gives."""

    folder: Path
    program: Path
    model: Clicks
    predictor: Predictor


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    place = tmp_path_factory.mktemp("exported")
    ids = torch.from_numpy(fleet.data.hash_ids("user", np.arange(40).reshape(20, 2)))
    with joined(model=Clicks()) as one:
        for _ in range(2):
            one.model(ids, torch.rand(20, 1)).sum().backward()
            one.optimizer.step()
        one.fleet.save_inference_model(place / "model", schema=SCHEMA)
    example = {"ids": torch.zeros(2, 2, dtype=torch.int64), "dense": torch.zeros(2, 1)}
    export_for_serving(Clicks(), example, place / "clicks.pt2")
    model = fleet.load_inference_model(place / "model", Clicks())
    return Exported(place / "model", place / "clicks.pt2", model, Predictor(place / "clicks.pt2"))


@pytest.fixture
def served(exported: Exported, tmp_path: Path) -> ServedModel:
    return load_model(exported.folder, tmp_path / "cache", has_layers=True, numbers=[0])


@pytest.fixture
def answers(exported: Exported, served: ServedModel) -> Answers:
    made = Answers(1 << 20, predictor=exported.predictor)
    exported.predictor.check(served)
    made.serve(served)
    return made


def batch(size: int) -> dict[str, torch.Tensor]:
    ids = fleet.data.hash_ids("user", np.arange(2 * size).reshape(size, 2))
    return {"ids": torch.from_numpy(ids), "dense": torch.rand(size, 1)}


def as_arrays(inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: one.numpy() for name, one in inputs.items()}


@pytest.mark.parametrize("size", [1, 2, 33])
def test_it_predicts_what_the_model_does(exported: Exported, answers: Answers, size: int) -> None:
    inputs = batch(size)
    found, version = answers.predict("test", as_arrays(inputs))
    assert torch.equal(torch.from_numpy(found["0"]), exported.model(**inputs))
    assert version == answers.model().version


def test_both_doors_predict_from_inputs_and_from_columns(
    exported: Exported, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"age": ["3", "0.5", ""], "user": ["anna", "", "ben"], "item": ["1", "2", "3"]}
    inputs = {
        "ids": torch.from_numpy(
            np.stack([fleet.data.hash_ids(name, columns[name]) for name in ("user", "item")], axis=1)
        ),
        "dense": torch.tensor([[3.0], [0.5], [0.0]]),
    }
    expected = exported.model(**inputs)
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    door = GrpcDoor(answers, Endpoint(LOOPBACK, 0), TOKEN, threads=1)
    door.start()
    try:
        with ServingClient(str(door.endpoint)) as client:
            for asked in ({"inputs": as_arrays(inputs)}, {"columns": columns}):
                found, version = client.predict(**asked)
                assert torch.equal(torch.tensor(found["0"]), expected)
                assert version.base == answers.model().name
            with pytest.raises(UsageError, match=r"the program takes 'ids' int64.*got 'ids'; send those"):
                client.predict({"ids": inputs["ids"].numpy()})
    finally:
        door.stop(1.0)
    for given in ({"inputs": {name: one.tolist() for name, one in inputs.items()}}, {"columns": columns}):
        told = predict(answers, json.dumps(given).encode())
        assert torch.equal(torch.tensor(told["outputs"]["0"]), expected)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"inputs": {"ids": [[1, 2]]}}, "the program takes 'ids'"),
        ({"inputs": {"ids": [[1, 2]], "x": [1]}}, "the program has no input 'x'; send 'ids', 'dense'"),
        ({"inputs": {"ids": [[1, 2]], "dense": [[1], [2]]}}, "must have one number of samples"),
        ({"inputs": {"ids": [[1, 2, 3]], "dense": [[1]]}}, r"input 'ids' must be int64 with samples of shape \[2\]"),
        ({"inputs": {"ids": [[1, "x"]], "dense": [[1]]}}, "input 'ids' must be a list of samples of numbers"),
        ({"inputs": {"ids": [[1, 2], [3]], "dense": [[1]]}}, "input 'ids' must be a list of samples of numbers"),
        ({"inputs": {"ids": [], "dense": []}}, "input 'ids' must be int64"),
        ({"inputs": {"ids": [[1.9, 2], [3, "7"]], "dense": [[1], [1]]}}, "list of samples of numbers: one is no int64"),
        ({"inputs": {"ids": [[1, True]], "dense": [[1]]}}, "list of samples of numbers: one is no int64"),
        ({"inputs": {"ids": [[1, 9007199254740993.0]], "dense": [[1]]}}, "list of samples of numbers: one is no int64"),
        ({"inputs": {"ids": [[1, 2]], "dense": [["1"]]}}, "list of samples of numbers: one is no float32"),
        ({"inputs": {"ids": 5, "dense": [[1]]}}, "input 'ids' must be a list of samples of numbers: got 5; mend it"),
        ({"columns": {"user": ["\ud800"], "item": ["1"], "age": ["1"]}}, "half of a pair, which is no text"),
        ({"columns": {"user": ["a"]}}, "the request lacks column"),
        ({}, "the request must be"),
    ],
)
def test_what_cannot_be_predicted(answers: Answers, given: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        predict(answers, json.dumps(given).encode())


def test_programs_and_folders_that_do_not_fit(exported: Exported, tmp_path: Path) -> None:
    other = load_model(
        save_copy(tmp_path / "m", {"rows": (np.array([1]), np.ones((1, 4), np.float32))}), tmp_path / "c"
    )
    whole = load_model(exported.folder, tmp_path / "c", has_layers=True)
    exported.predictor.check(whole)
    tables = dict(whole.tables)
    whole.tables = {"rows": tables["rows"]}
    with pytest.raises(CheckpointError, match=r"table 'bags/of' is not there in .*clicks.pt2 needs width 3; export"):
        exported.predictor.check(whole)
    whole.tables = {"rows": tables["rows"], "bags/of": tables["rows"]}
    with pytest.raises(CheckpointError, match=r"table 'bags/of' has width 4 in .*clicks.pt2 needs width 3; export"):
        exported.predictor.check(whole)
    whole.tables, whole.dense = tables, {}
    with pytest.raises(CheckpointError, match=r"has no '.*', which .*clicks.pt2 needs; export the same model"):
        exported.predictor.check(whole)
    answers = Answers(1 << 20)
    answers.serve(other)
    with pytest.raises(UsageError, match="this server has no program for predictions; start it with --predict FILE"):
        answers.predict("test", {})
    (tmp_path / "no.pt2").write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"--predict .*no.pt2 is no program of export_for_serving"):
        Predictor(tmp_path / "no.pt2")
    with pytest.raises(UsageError, match="example must have a tensor of two samples or more"):
        export_for_serving(Clicks(), {"ids": torch.zeros(1, 2, dtype=torch.int64)}, tmp_path / "x")


def test_rows_and_layers_of_a_prediction_are_of_one_moment(answers: Answers, served: ServedModel) -> None:
    """Each batch has the bias and the rows of one table cancel each other: a mixture would show."""
    inputs = as_arrays(batch(8))
    ids = np.unique(inputs["ids"])
    none = np.empty(0, np.int64)
    for name, value in (
        ("norm.running_mean", 0.0),
        ("norm.running_var", 1.0),
        ("norm.weight", 1.0),
        ("norm.bias", 0.0),
    ):
        served.dense[name][...] = value
    served.dense["out.weight"][...] = np.array([[1.0, *[0.0] * 11]])
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            number += 1
            rows = np.full((len(ids), 4), float(number), np.float32)
            bias = DenseChange("out.bias", 0, np.array([-float(number)], np.float32))
            served.apply(0, number, [TableChange("rows", ids, rows, none)], [bias])

    def first() -> Iterator[float]:
        for _ in range(60):
            found, version = answers.predict("test", inputs)
            if version.numbers[0] > 0:
                yield float(np.abs(found["0"]).max()) / version.numbers[0]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        left = list(first())
    finally:
        over.set()
        thread.join()
    assert len(left) > 10
    assert max(left) < 1e-4  # epsilon of the norm alone


def test_layers_are_those_of_the_model_though_it_lies_where_another_has_lain(
    exported: Exported, served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet_serve.predict.predictor.id", lambda _: 7, raising=False)  # the same place in memory
    scores = []
    for bias in (0.0, 5.0):
        dense = served.dense | {"out.bias": np.array([bias], np.float32)}
        model = ServedModel("m", list(served.tables.values()), [0], [], dense=dense)
        found, _ = exported.predictor.predict(
            model, as_arrays({"ids": torch.zeros(2, 2).long(), "dense": torch.ones(2, 1)})
        )
        scores.append(found["0"][0])
    assert abs(scores[1] - scores[0] - 5.0) < 1e-4


def test_an_input_without_samples_is_refused(exported: Exported, served: ServedModel) -> None:
    with pytest.raises(UsageError, match=r"input 'ids' must be int64 with samples of shape \[2\], got int64\[\]"):
        exported.predictor.predict(served, {"ids": np.array(5), "dense": np.ones((1, 1), np.float32)})
