"""A model is more than what one optimizer trains: buffers, frozen layers, two optimizers, tied weights, 2 x 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fleet
from fleet import checkpoint
from support.jobs import fleetrun, python
from support.parity import whole_model
from support.parity.whole_model import TOWERS, plain, train, values_of

pytestmark = pytest.mark.timeout(120)
SCRIPT = Path(whole_model.__file__)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job of 2 servers and 2 workers that trained, saved, loaded and went on."""
    folder = tmp_path_factory.mktemp("whole")
    result = fleetrun("--server_num", 2, "--worker_num", 2, SCRIPT, "train", folder, cwd=folder, warm=True)
    assert result.code == 0, result.err
    return folder


@pytest.fixture(scope="module")
def truth() -> dict[str, torch.Tensor]:
    return values_of(plain())


def differing(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], tower: str) -> list[str]:
    assert found.keys() == wanted.keys()
    names = [name for name in wanted if name.startswith(f"{tower}.")]
    assert names
    return [
        name
        for name in names
        if found[name].dtype != wanted[name].dtype
        or not torch.allclose(found[name].double(), wanted[name].double(), atol=1e-6, rtol=1e-5)
    ]


@pytest.mark.parametrize("tower", TOWERS)
@pytest.mark.parametrize("when", ["trained", "loaded"])
@pytest.mark.parametrize("worker", [0, 1])
def test_two_workers_are_one_process(
    job: Path, truth: dict[str, torch.Tensor], worker: int, when: str, tower: str
) -> None:
    assert not differing(torch.load(job / f"{when}-{worker}.pt"), truth, tower)


def test_rows_and_outputs_too(job: Path, truth: dict[str, torch.Tensor]) -> None:
    for name in ("all rows", "logits"):
        found = [torch.load(job / f"{when}-{worker}.pt")[name] for when in ("trained", "loaded") for worker in (0, 1)]
        for one in found:
            torch.testing.assert_close(one, truth[name], atol=1e-6, rtol=1e-5)


def test_a_run_that_is_loaded_goes_on(job: Path) -> None:
    """State of both optimizers is on the servers, so going on is what one process does in two passes."""
    resumed = [torch.load(job / f"resumed-{worker}.pt") for worker in (0, 1)]
    for name in resumed[0]:
        assert torch.equal(resumed[0][name], resumed[1][name]), name
    loaded = torch.load(job / "loaded-0.pt")
    assert int(resumed[0]["counted.calls"]) == int(loaded["counted.calls"]) + whole_model.STEPS
    assert torch.equal(resumed[0]["frozen.0.weight"], loaded["frozen.0.weight"])
    assert not torch.equal(resumed[0]["second.0.weight"], loaded["second.0.weight"])


def test_values_load_without_an_optimizer(job: Path, truth: dict[str, torch.Tensor]) -> None:
    out = python(SCRIPT, "evaluate", job, cwd=job, warm=True)
    assert out.split()[-1] == str(whole_model.NUM_IDS)
    found = torch.load(job / "evaluated.pt")
    for tower in TOWERS:
        assert not differing(found, truth, tower)
    torch.testing.assert_close(found["logits"], truth["logits"], atol=1e-6, rtol=1e-5)


def test_an_inference_copy_has_every_name_of_the_model(job: Path, truth: dict[str, torch.Tensor]) -> None:
    dense = checkpoint.read_inference(job / "model").dense
    for name, wanted in truth.items():
        if name not in ("logits", "all rows"):
            torch.testing.assert_close(
                torch.from_numpy(dense[name]).to(wanted.dtype), wanted, atol=1e-6, rtol=1e-5, msg=name
            )


def test_the_truth_learns() -> None:
    model = plain()
    before = values_of(model)
    train(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    assert not torch.equal(before["logits"], values_of(model)["logits"])


@pytest.mark.parametrize("folder", ["model", "checkpoint"])
def test_it_is_served_as_it_was_trained(job: Path, truth: dict[str, torch.Tensor], folder: str) -> None:
    torch.manual_seed(99)
    model = whole_model.Whole(fleet.nn.Embedding(whole_model.WIDTH))
    served = fleet.load_inference_model(job / folder, model)
    ids = torch.arange(whole_model.NUM_IDS).view(-1, 2)
    torch.testing.assert_close(served(ids), truth["logits"], atol=1e-6, rtol=1e-5)
    exported = torch.export.export(served, (ids,)).module()
    torch.testing.assert_close(exported(ids), truth["logits"], atol=1e-6, rtol=1e-5)
