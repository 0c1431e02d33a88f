"""Every model of `fleet.models`: two servers and two workers in step are one process of plain torch, and it is served.

All models train in one job, with tables of their own. `support.worker.model_cases` has a row for each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fleet
from fleet import models
from fleet.models.registry import class_of
from support.jobs import fleetrun
from support.parity.model_truth import Zoo, sparse_of, train
from support.worker import model_job
from support.worker.model_cases import CASES, NUM_IDS, STEPS, Case

pytestmark = pytest.mark.timeout(120)
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job of 2 servers and 2 workers that trained and saved."""
    folder = tmp_path_factory.mktemp("models")
    script = Path(model_job.__file__)
    path = {"PYTHONPATH": str(script.parents[2])}
    result = fleetrun("--server_num", 2, "--worker_num", 2, script, folder, cwd=folder, environ=path, warm=True)
    assert result.code == 0, result.err
    return folder


@pytest.fixture(scope="module")
def truth() -> tuple[Zoo, dict[str, list[float]]]:
    return train()


@pytest.fixture(scope="module")
def served(job: Path) -> Zoo:
    torch.manual_seed(99)
    return fleet.load_inference_model(job / "model", Zoo())


def test_every_model_is_here() -> None:
    tested = {type(net) for net in Zoo().nets.values()}
    missing = [name for name in models.NAMES if class_of(name) not in tested]
    assert not missing, f"no case in support.worker.model_cases: {', '.join(missing)}"


@EACH
def test_losses_are_those_of_one_process(case: Case, job: Path, truth: tuple[Zoo, dict[str, list[float]]]) -> None:
    of_workers = [json.loads((job / f"losses-{worker}.json").read_text())[case.name] for worker in (0, 1)]
    found, wanted = torch.tensor(of_workers).mean(0), torch.tensor(truth[1][case.name])
    assert len(found) == STEPS
    torch.testing.assert_close(found, wanted, **CLOSE)


@EACH
def test_parameters_and_rows_too(case: Case, served: Zoo, truth: tuple[Zoo, dict[str, list[float]]]) -> None:
    found, wanted = served.nets[case.name], truth[0].nets[case.name]
    rows_of = sparse_of(found)
    plain = {name: one for name, one in wanted.named_parameters() if ".tables." not in name}
    values = dict(found.named_parameters())
    assert plain or rows_of
    for name, one in plain.items():
        torch.testing.assert_close(values[name].data, one.data, **CLOSE, msg=name)
    for name, module in rows_of.items():
        for home, request in zip(module.home_names(), module.table_requests(), strict=True):  # type: ignore[operator]
            keys = module.get_submodule(home).get_buffer("keys")
            table = wanted.get_submodule(name).tables[request.name.replace(".", "/")]  # type: ignore[index]
            assert 0 < len(keys) <= NUM_IDS
            torch.testing.assert_close(
                module.get_submodule(home).get_parameter("weight").data, table[keys].data, **CLOSE
            )


@EACH
def test_it_learnt_something(case: Case, truth: tuple[Zoo, dict[str, list[float]]]) -> None:
    """Else the other tests compare what does not move."""
    torch.manual_seed(0)
    before, after = Zoo().nets[case.name], truth[0].nets[case.name]
    moved = [
        name
        for name, one in before.named_parameters()
        if one.numel() and not torch.equal(one, after.get_parameter(name))
    ]
    assert len(moved) >= sum(one.numel() > 0 for one in before.parameters()) / 2  # small layers may be dead
    assert truth[1][case.name][0] != truth[1][case.name][-1]


@EACH
def test_it_is_served(case: Case, served: Zoo, truth: tuple[Zoo, dict[str, list[float]]]) -> None:
    batch = case.batches()[0]
    found: Any = served.nets[case.name]
    wanted: Any = truth[0].nets[case.name]
    with torch.no_grad():
        scores = found.scores(found(batch))
        torch.testing.assert_close(scores, wanted.eval().scores(wanted(batch)), **CLOSE)
    wanted.train()


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=() if one.name == "deepfm" else pytest.mark.exhaustive, id=one.name) for one in CASES],
)
def test_it_is_exported(case: Case, served: Zoo) -> None:
    batch = case.batches()[0]
    net = served.nets[case.name]
    exported = torch.export.export(net, (batch,)).module()
    torch.testing.assert_close(exported(batch), net(batch))
