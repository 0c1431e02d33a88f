"""AUC: against a sort, against a case worked out by hand, merged, and given nonsense."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import AUC, auc, inputs, roc


def by_sorting(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """The exact area: of all pairs of a positive and a negative, the share in the right order, ties counting half."""
    values, inverse = torch.unique(scores, return_inverse=True)
    counts = [torch.bincount(inverse[labels == label], minlength=len(values)).double() for label in (0, 1)]
    before = counts[0].cumsum(0) - counts[0] / 2
    return float((counts[1] * before).sum() / (counts[0].sum() * counts[1].sum()))


def sample(count: int, seed: int = 0, strength: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, generator=generator) * strength
    labels = (torch.rand(count, generator=generator) < torch.sigmoid(logits)).long()
    return torch.sigmoid(logits + 0.5 * torch.randn(count, generator=generator)), labels


def test_examples() -> None:
    assert doctest.testmod(roc).failed == 0


def test_a_case_worked_out_by_hand() -> None:
    metric = AUC()
    # Six pairs; 0.4 over 0.1, 0.8 over 0.1, 0.35 and 0.5 are right, 0.4 over 0.35 too, 0.4 over 0.5 is wrong.
    metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8, 0.5]), torch.tensor([0, 1, 0, 1, 0]))
    assert metric.compute() == 5 / 6


def test_ties_count_half_and_the_ends_are_inside() -> None:
    metric = AUC()
    metric.update(torch.tensor([0.0, 1.0, 1.0, 1.0]), torch.tensor([0, 0, 1, 1]))
    assert metric.compute() == 0.75


@pytest.mark.parametrize("strength", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("num_thresholds", [4096, 10_000])
def test_near_the_exact_area(strength: float, num_thresholds: int) -> None:
    scores, labels = sample(50_000, strength=strength)
    metric = AUC(num_thresholds)
    for some_scores, some_labels in zip(scores.split(777), labels.split(777), strict=True):
        metric.update(some_scores, some_labels)
    assert metric.compute() == pytest.approx(by_sorting(scores, labels), abs=1e-3)


def test_scores_on_a_grid_are_exact() -> None:
    scores, labels = sample(5000)
    scores = (scores * 4096).floor() / 4096
    metric = AUC()
    metric.update(scores, labels)
    assert metric.compute() == pytest.approx(by_sorting(scores, labels), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("label_dtype", [torch.bool, torch.float32, torch.uint8])
def test_types_and_shapes(dtype: torch.dtype, label_dtype: torch.dtype) -> None:
    scores, labels = sample(1000)
    rounded = scores.to(dtype)
    expected, metric = AUC(), AUC()
    expected.update(rounded.float(), labels)
    metric.update(rounded.view(10, 100).requires_grad_(), labels.view(10, 100).to(label_dtype))
    metric.update(torch.empty(0), torch.empty(0))
    assert metric.compute() == expected.compute()


def test_states_of_workers_add_up() -> None:
    scores, labels = sample(3000)
    whole = AUC()
    whole.update(scores, labels)
    workers = [AUC(), AUC(), AUC()]
    for worker, some_scores, some_labels in zip(workers, scores.chunk(3), labels.chunk(3), strict=True):
        worker.update(some_scores, some_labels)
    total = AUC.from_state(sum((worker.state() for worker in workers), AUC().state()))
    workers[0].merge(workers[1].state())
    workers[0].merge(workers[2].state())
    assert total.compute() == workers[0].compute() == whole.compute()
    assert torch.equal(total.state(), whole.state())
    assert auc(*whole.state()) == whole.compute()


def test_a_state_is_a_copy_and_reset_forgets() -> None:
    metric = AUC(8)
    state = metric.state()
    metric.update(torch.tensor([0.2]), torch.tensor([1]))
    assert int(state.sum()) == 0
    again = AUC.from_state(metric.state())
    metric.reset()
    assert int(metric.state().sum()) == 0
    assert int(again.state().sum()) == 1


def test_one_class_alone_has_no_area() -> None:
    metric = AUC()
    assert math.isnan(metric.compute())
    metric.update(torch.tensor([0.2, 0.9]), torch.tensor([1, 1]))
    assert math.isnan(metric.compute())


def test_billions_of_samples_do_not_overflow() -> None:
    many = torch.tensor([5_000_000_000, 5_000_000_000])
    assert auc(many, many) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (torch.tensor([1.5]), torch.tensor([1]), r"scores must lie in \[0, 1\], got 1.5; for logits make it AUC"),
        (torch.tensor([0.5, math.nan]), torch.tensor([1, 0]), "scores must lie in .* got nan"),
        (torch.tensor([0.5, -0.25]), torch.tensor([1, 0]), "got -0.25"),
        (torch.tensor([0.5]), torch.tensor([2]), "labels must be 0 or 1, got 2"),
        (torch.tensor([0.5]), torch.tensor([math.nan]), "labels must be 0 or 1, got nan"),
        (torch.rand(4, 2), torch.ones(4), r"same shape, got \[4, 2\] and \[4\]; .* column 1"),
    ],
)
def test_wrong_values(scores: torch.Tensor, labels: torch.Tensor, message: str) -> None:
    metric = AUC()
    with pytest.raises(UsageError, match=message):
        metric.update(scores, labels)
    assert int(metric.state().sum()) == 0


def test_wrong_types_and_states() -> None:
    metric = AUC(8)
    with pytest.raises(UsageTypeError, match="scores must be floating point numbers, got torch.int64"):
        metric.update(torch.tensor([1]), torch.tensor([1]))
    with pytest.raises(UsageTypeError, match="scores must be a tensor, got list"):
        metric.update([0.5], torch.tensor([1]))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least 2, got 1"):
        AUC(1)
    with pytest.raises(UsageTypeError, match="must be an int, got 0.5"):
        AUC(0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a state of 4 thresholds cannot be added to one of 8"):
        metric.merge(torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(UsageError, match="int64 or float64 .2, num_thresholds. counts"):
        AUC.from_state(torch.zeros(8))
    with pytest.raises(UsageError, match="counts of the same thresholds"):
        auc(torch.zeros(3), torch.zeros(4))


def clustered(count: int, rate: float, spread: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits close together around that of a click rate, and labels that follow them more strongly than they say."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, generator=generator)
    logits = math.log(rate / (1 - rate)) + spread * hidden
    labels = torch.rand(count, generator=generator) < torch.sigmoid(math.log(rate / (1 - rate)) + 1.2 * hidden)
    return logits, labels


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize(("rate", "spread"), [(0.25, 0.01), (0.25, 1.0), (0.25, 5.0), (0.01, 0.1), (0.001, 1.0)])
def test_within_1e_4_of_scikit_learn(rate: float, spread: float, from_logits: bool) -> None:
    logits, labels = clustered(100_000, rate, spread)
    scores = logits if from_logits else torch.sigmoid(logits)
    metric = AUC(from_logits=from_logits)
    for some_scores, some_labels in zip(scores.split(30_000), labels.split(30_000), strict=True):
        metric.update(some_scores, some_labels)
    assert metric.compute() == pytest.approx(roc_auc_score(labels, scores), abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=2, max_size=30))
def test_parts_are_in_the_order_of_scores(pairs: list[tuple[float, bool]]) -> None:
    scores = torch.tensor(sorted(score for score, _ in pairs))
    parts = roc.part_of_probabilities(scores)
    assert torch.equal(parts, parts.sort().values)
    assert int(parts[0]) >= 0
    assert int(parts[-1]) < roc.NUM_PARTS
    logits = torch.logit(scores.double())
    parts = roc.part_of_logits(logits)
    assert torch.equal(parts, parts.sort().values)


def test_values_on_a_device_are_checked_when_the_metric_is_read() -> None:
    class Elsewhere:
        """A tensor, but for the device that it says it has."""

        def __init__(self, values: torch.Tensor) -> None:
            self.values, self.device = values, torch.device("cuda")

        def all(self) -> torch.Tensor:
            return self.values.all()

    doubts = inputs.Doubts()
    doubts.require(Elsewhere(torch.tensor([True])), "labels must be 0 or 1")  # type: ignore[arg-type]
    doubts.settle()
    doubts.require(Elsewhere(torch.tensor([True, False])), "labels must be 0 or 1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="labels must be 0 or 1 .noticed on the GPU"):
        doubts.settle()
    doubts.settle()


def test_logits_are_scores_before_the_sigmoid() -> None:
    logits, labels = torch.randn(500), torch.rand(500) < 0.5
    of_logits, of_scores = AUC(from_logits=True), AUC()
    of_logits.update(logits, labels)
    of_scores.update(torch.sigmoid(logits), labels)
    assert of_logits.compute() == pytest.approx(of_scores.compute(), abs=1e-5)
    of_logits.update(torch.tensor([100.0, 101.0, -100.0]), torch.tensor([1, 0, 0]))
    even = AUC(4096, from_logits=True)
    even.update(logits, labels)
    assert even.compute() == pytest.approx(of_scores.compute(), abs=1e-3)
    with pytest.raises(UsageError, match="logits must be numbers, got nan"):
        of_logits.update(torch.tensor([math.nan]), torch.tensor([1]))
