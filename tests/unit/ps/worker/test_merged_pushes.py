"""Pushes that become one do what they would have done one after the other: under a schedule, with a NaN among them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.ps.worker.sending.merge import merged

SIZE = 4
Steps = Sequence[tuple[float, float]]
"""For each push, the gradient of every value and the learning rate."""


def job_of(rule: RuleSpec, nonfinite: str = "error") -> JobSpec:
    table = TableSpec("ads", 2, rule, initializers.Constant(0.0), entries.AlwaysEntry())
    dense = DenseSpec((rule,), (("w", (SIZE,)),), (DenseBlock("w", 0, SIZE, 0, 0),))
    return JobSpec(1, 1, "async", nonfinite, tables=(table,), dense=dense)


def pushes_of(steps: Steps) -> list[Gradients]:
    keys = route(torch.tensor([5]), 1)
    return [
        Gradients(
            step,
            [TablePush(0, lr, keys.grouped, torch.full((1, 2), float(grad)), keys.offsets.tolist())],
            [[np.full(SIZE, grad, np.float32)]],
            {0: lr},
            steps=step + 1,
        )
        for step, (grad, lr) in enumerate(steps)
    ]


def after(pushes: Sequence[Gradients], job: JobSpec) -> tuple[NDArray[np.float32], int, int]:
    """Dense values and those of the row behind one another; how many pushes were taken, how much was skipped."""
    service = Service()
    client = Client([LocalTransport(service)], 0, job)
    client.declare()
    client.start([[np.zeros(SIZE, np.float32)]])
    for push in pushes:
        client.push(push).results()
    held, counts = service.state.held, service.state.stats.counts()
    values = np.concatenate([held.read_dense()[0], held.tables[0].pull(np.array([5]))[0]])
    return values, counts["pushes"], held.skipped


SCHEDULES = {
    "ends at 0": [(1.0, 0.1), (2.0, 0.05), (3.0, 0.0)],
    "begins at 0": [(1.0, 0.0), (2.0, 0.1)],
    "warms up": [(1.0, 0.001), (-2.0, 0.1)],
    "stands still": [(1.0, 0.1), (2.0, 0.1), (3.0, 0.1)],
    "is over": [(1.0, 0.0), (2.0, 0.0)],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_gradient_has_the_rate_of_its_own_step(schedule: str) -> None:
    job, pushes = job_of(rules.SGD()), pushes_of(SCHEDULES[schedule])
    (one,) = merged(pushes, job)
    np.testing.assert_allclose(after([one], job)[0], after(pushes, job)[0], rtol=1e-6)
    assert one.steps == len(pushes)


@pytest.mark.parametrize(("rule", "expected"), [(rules.Momentum(0.1), -0.2 / 3), (rules.Adam(0.1), -0.05)])
def test_other_rules_make_one_step_of_the_mean_size(rule: RuleSpec, expected: float) -> None:
    """A momentum that has just begun steps by the gradient that it is given, Adam by its sign."""
    job = job_of(rule)
    values, num_pushes, _ = after(merged(pushes_of(SCHEDULES["ends at 0"]), job), job)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert num_pushes == 1


@pytest.mark.parametrize(
    ("grads", "num_pushes"), [((1, nan, 1, 1), 3), ((nan, 1, 1, 1), 2), ((nan, nan), 2), ((1, 1, 1), 1)]
)
def test_one_step_with_a_nan_takes_no_other_along(grads: Sequence[float], num_pushes: int) -> None:
    job, pushes = job_of(rules.SGD(), "skip"), pushes_of([(grad, 0.1) for grad in grads])
    values, num_taken, skipped = after(merged(pushes, job), job)
    expected, _, expected_skipped = after(pushes, job)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert (num_taken, skipped) == (num_pushes, expected_skipped)
