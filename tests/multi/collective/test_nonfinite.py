"""strategy.nonfinite_gradients in a collective job: worker 1 has a NaN in its third batch, in every mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from support.collective import collective_nonfinite
from support.collective.collective_cases import batches, network
from support.collective.collective_job import LIMIT_S, run_cases
from support.collective.collective_nonfinite import BAD_STEP, ERRORS, NUM_STEPS, SKIPS

pytestmark = pytest.mark.timeout(LIMIT_S + 20)

Seen = dict[str, list[Any]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One job for all of them."""
    folder = tmp_path_factory.mktemp("nonfinite")
    return run_cases(collective_nonfinite.__name__, collective_nonfinite.CASES, 2, folder)


@pytest.mark.parametrize("case", [case for case in ERRORS if case not in ("local_error", "one_part_error")])
def test_all_workers_name_the_step_and_the_parameter(seen: Seen, case: str) -> None:
    step = BAD_STEP // 2 + 1 if case == "merged_error" else BAD_STEP
    for worker, got in enumerate(seen[case]):
        assert got["error"] == "DivergedError", got
        assert got["says"].startswith(f"step {step} on worker {worker}: the gradient of '0.weight' (and of "), got
        assert "set strategy.nonfinite_gradients = 'skip'" in got["says"]
        assert "\n" not in got["says"]


def test_a_worker_says_whether_its_own_batch_did_it(seen: Seen) -> None:
    first, second = (got["says"] for got in seen["averaged_error"])
    assert "look at the batches of the other workers too" in first
    assert "and so does what the model returned here" in second


def test_workers_that_hold_parts_decide_together(seen: Seen) -> None:
    for worker, got in enumerate(seen["one_part_error"]):
        assert got["says"].startswith(f"step 1 on worker {worker}: the gradient of '0.weight' holds a NaN"), got


def test_a_worker_that_steps_alone_says_so_alone(seen: Seen) -> None:
    first, second = seen["local_error"]
    assert first["num_updates"] == NUM_STEPS
    assert second["says"].startswith(f"step {BAD_STEP} on worker 1: the gradient of '0.weight'"), second


@pytest.mark.parametrize("case", SKIPS)
def test_a_step_is_left_out_and_counted(seen: Seen, case: str) -> None:
    updates = NUM_STEPS // 2 if case == "merged_skip" else NUM_STEPS
    for worker, got in enumerate(seen[case]):
        is_out = worker == 1 or "local" not in case
        counts = {"is_finite": True, "num_skipped": int(is_out), "num_updates": updates - is_out}
        assert got == {**counts, "last": seen[case][0]["last"]}


@pytest.mark.parametrize("case", ["averaged_skip", "sharding_1_skip", "sharding_3_skip"])
def test_without_the_step_it_is_the_training_of_the_other_batches(seen: Seen, case: str) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(NUM_STEPS), 1):
        if number == BAD_STEP:
            continue
        optimizer.zero_grad()
        cross_entropy(module(x), y).backward()
        optimizer.step()
    expected = list(module.parameters())[-1].detach()
    torch.testing.assert_close(torch.tensor(seen[case][0]["last"]), expected, rtol=1e-5, atol=1e-6)


def test_the_loss_scale_goes_on_skipping_by_itself(seen: Seen) -> None:
    for got in seen["float16_overflow"]:
        assert got["num_skipped"] == 0
        assert 0 < got["num_updates"] < 8
