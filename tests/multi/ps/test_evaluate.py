"""fleet.evaluate over workers: one value for all, whatever each has; a worker that fails keeps nobody waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import mse_loss

import fleet
from fleet.errors import CommunicationError
from fleet.metrics import AUC, MAE, GroupedAUC, LogLoss
from fleet.net import Hold
from support.collective.collective_job import run_cases
from support.parity.training import Net, Trainer, batch, in_threads, joined, served, strategy
from support.worker import evaluate_cases as cases

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return run_cases("support.worker.evaluate_cases", list(cases.CASES), 2, tmp_path_factory.mktemp("job"))


def alone(*data: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
    """What one process with all batches measures."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1), torch.nn.Sigmoid(), torch.nn.Flatten(0))
    return fleet.evaluate(model, data, cases.METRICS)


def test_a_worker_may_have_no_batch(got: dict[str, list[Any]]) -> None:
    first, second = got["uneven"]
    assert first == second
    assert first == pytest.approx(alone(*cases.batches(0, cases.SIZES[0])), abs=1e-6)


def test_metrics_are_gathered_by_one_call(got: dict[str, list[Any]]) -> None:
    first, second = got["by_hand"]
    scores, labels, users = cases.clicks()
    whole: dict[str, Any] = {"auc": AUC(), "gauc": GroupedAUC(), "loss": LogLoss(), "none": MAE()}
    for name, metric in whole.items():
        metric.update(scores, labels, *((users,) if name == "gauc" else ()))
    weights = torch.cat([scores[:70] * 3, torch.ones(30)])  # worker 1 has none
    weighted: dict[str, Any] = {"auc": AUC(), "gauc": GroupedAUC(), "loss": LogLoss()}
    for name, metric in weighted.items():
        metric.update(scores, labels, *((users,) if name == "gauc" else ()), weight=weights)
        whole[f"weighted {name}"] = metric
    assert first == second == pytest.approx({name: metric.compute() for name, metric in whole.items()}, rel=1e-9)


def test_data_that_does_not_come_out_even_counts_once(got: dict[str, list[Any]]) -> None:
    first, second = got["joined"]
    assert first == second
    assert first == pytest.approx(alone(*cases.batches(7, (9,))), abs=1e-6)


def test_an_error_in_the_model_reaches_all(got: dict[str, list[Any]]) -> None:
    first, second = got["in_the_model"]
    assert first["error"] == "CommunicationError"
    assert first["says"].startswith("fleet.evaluate: worker 1 failed: RuntimeError: ")
    assert second["error"] == "RuntimeError"


def test_an_error_of_the_data_reaches_all(got: dict[str, list[Any]]) -> None:
    first, second = got["in_the_loader"]
    assert first["says"] == "fleet.evaluate: worker 1 failed: OSError: the disk is gone"
    assert second == {"error": "OSError", "says": "the disk is gone\nand more"}


def test_an_error_of_a_stream_reaches_all(got: dict[str, list[Any]]) -> None:
    first, second = got["in_a_stream"]
    assert first.pop("says") == "worker 1 could not read the next batch; the error stands there"
    assert second.pop("says") == "the disk is gone"
    assert first == second == alone(*cases.batches(0, (3,)), *cases.batches(0, (3,)))


def test_all_measure_with_the_statistics_that_would_be_saved(got: dict[str, list[Any]]) -> None:
    first, second = got["statistics"]
    assert first["own"] != pytest.approx(second["own"], abs=1e-4)
    assert first["loss"] == second["loss"] == pytest.approx(first["own"], abs=1e-6)


def test_other_metrics_are_named(got: dict[str, list[Any]]) -> None:
    says = [one["says"] for one in got["other_metrics"]]
    assert says[0] == (
        "fleet.evaluate: worker 1 has the metrics loss, this one auc, loss; give the same on every worker"
    )
    assert says[1].startswith("fleet.evaluate: worker 0 has the metrics auc, loss, this one loss")


def test_beside_servers() -> None:
    """Two workers that have trained together; then one whose metric fails."""
    with served(2) as (endpoints, _), Hold.any_port() as one, Hold.any_port() as two:
        meeting = [one.endpoint, two.endpoint]

        def work(index: int) -> tuple[dict[str, float], str]:
            with joined(endpoints, index, 2, meeting=meeting) as here:
                here.train(2)
                data = [batch(step, 5) for step in range(index, 3, 2)]
                found = here.fleet.evaluate(here.model, data, {"loss": mse_loss})
                return found, _failing(here, data)

        (first, failed), (second, told) = in_threads(lambda: work(0), lambda: work(1))
    assert first == second
    assert first["loss"] > 0
    assert failed == "division by zero"
    assert told == "fleet.evaluate: worker 0 failed: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("mode", ["async", "half", "geo"])
def test_what_is_measured_is_what_the_servers_have(mode: str, tmp_path: Path) -> None:
    """Workers that do not keep step have other values than the servers, and than each other, until they ask."""
    with served(1) as (endpoints, _), Hold.any_port() as one, Hold.any_port() as two:
        meeting = [one.endpoint, two.endpoint]

        def work(index: int) -> dict[str, float]:
            given = strategy(mode, k_steps=3)
            with joined(endpoints, index, 2, meeting=meeting, strategy=given) as here:
                here.train(4 + 3 * index)
                data = [batch(step, 5) for step in range(4)]
                bias = here.model.get_parameter("out.bias")
                constant = {"bias": lambda *_, bias=bias: bias.sum()}
                found = here.fleet.evaluate(here.model, data[index::2], constant)
                here.fleet.util.barrier()
                if index == 0:
                    here.fleet.save_inference_model(str(tmp_path))
                here.fleet.util.barrier()
                return found

        first, second = in_threads(lambda: work(0), lambda: work(1))
    bias = float(fleet.load_inference_model(tmp_path, Net()).out.bias)
    assert first == second
    assert first["bias"] == pytest.approx(bias, abs=1e-6)


def test_beside_servers_the_statistics_are_the_mean_of_all() -> None:
    with served(1) as (endpoints, _), Hold.any_port() as one, Hold.any_port() as two:
        meeting = [one.endpoint, two.endpoint]

        def work(index: int) -> tuple[float, list[float]]:
            norm = torch.nn.BatchNorm1d(1, affine=False)
            with joined(endpoints, index, 2, meeting=meeting) as here:
                norm.running_mean = torch.tensor([1.0 + 2 * index])
                data = [(torch.ones(1, 1), torch.zeros(1, 1))] if index else []
                found = here.fleet.evaluate(norm, data, {"out": lambda outputs, _: outputs.mean()})
                return found["out"], norm.running_mean.tolist()

        found = in_threads(lambda: work(0), lambda: work(1))
    assert [value for value, _ in found] == [pytest.approx(-1.0, abs=1e-4)] * 2
    assert [own for _, own in found] == [[1.0], [3.0]]


def _failing(here: Trainer, data: Any) -> str:
    def fails(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        return 1 / here.index

    try:
        here.fleet.evaluate(here.model, data, {"bad": fails})
    except (ZeroDivisionError, CommunicationError) as error:
        return str(error)
    return "nothing"
