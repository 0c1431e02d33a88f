"""What each collective strategy does, seen by two workers (one test by four) over Gloo."""

from __future__ import annotations

from typing import Any

import pytest

from support.collective import collective_mistakes, collective_model, collective_modes, collective_precision
from support.collective.collective_job import LIMIT_S, run_cases

pytestmark = pytest.mark.timeout(LIMIT_S + 20)

Seen = dict[str, list[Any]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One job for all of them."""
    folder = tmp_path_factory.mktemp("strategies")
    parts = (collective_model, collective_modes, collective_precision, collective_mistakes)
    modules = ",".join(part.__name__ for part in parts)
    return run_cases(modules, [case for part in parts for case in part.CASES], 2, folder)


def same(seen: Seen, case: str) -> Any:
    """What both workers saw."""
    first, second = seen[case]
    assert first == second
    return first


def refused(seen: Seen, case: str, kind: str, *words: str) -> None:
    """Both workers raised an error of a kind that says certain words."""
    for worker in seen[case]:
        assert worker is not None
        assert worker["error"] == kind, worker
        assert all(word in worker["says"] for word in words), worker
        assert "\n" not in worker["says"]


def test_everybody_starts_as_worker_0(seen: Seen) -> None:
    found = same(seen, "starts_from_worker_0")
    assert found["gap"] == 0.0
    assert found["mean"] == 0.0
    assert found["names"] == ["0.weight", "0.bias", "1.weight"]
    assert found["named"] == ["0.weight"]


def test_parameters_that_drift_apart_are_named(seen: Seen) -> None:
    refused(seen, "drifted", "UsageError", "'2.bias'", "worker 0 and worker 1")


def test_gradients_are_accumulated_and_reduced_once(seen: Seen) -> None:
    for worker in seen["accumulates"]:
        assert worker["backward apart"] > 1e-3 or worker["apply apart"] > 1e-3
        assert worker["backward"] < 1e-7
        assert worker["apply"] < 1e-7


def test_a_reduction_that_was_forgotten_is_made_by_the_step(seen: Seen) -> None:
    assert same(seen, "forgotten_reduction") == 0.0
    assert same(seen, "unused_in_turn") == [1.0, 2.0]  # the mean of 2 and nothing, of nothing and 4


def test_a_batch_around_the_distributed_model_is_refused(seen: Seen) -> None:
    refused(seen, "around_the_model", "UsageError", "did not go through the distributed model")


@pytest.mark.parametrize("case", ["unused_in_the_loss", "unused_without_our_optimizer"])
def test_parameters_without_a_gradient_are_named(seen: Seen, case: str) -> None:
    refused(seen, case, "UsageError", "'spare.weight', 'spare.bias'", "strategy.find_unused_parameters = True")


def test_a_layer_may_rest(seen: Seen) -> None:
    resting, training = same(seen, "a_layer_that_rests")
    assert resting == 0.0
    assert training > 0.0


def test_a_model_is_distributed_once(seen: Seen) -> None:
    refused(seen, "the_same_model_twice", "UsageError", "given to fleet.distributed_model() before", "call it once")


def test_a_lazy_model_needs_a_batch_first(seen: Seen) -> None:
    refused(seen, "a_lazy_model", "UsageError", "'1.weight' of this model is lazy", "run a batch through the model")
    refused(seen, "a_lazy_buffer", "UsageError", "'running_mean' of this model is lazy")


def test_what_is_loaded_stays(seen: Seen) -> None:
    assert same(seen, "loads_after_wrapping") == 10.0
    for worker in seen["state_of_a_share"]:
        assert worker == {"entries": True, "far": 0.0}


def test_divided_models(seen: Seen) -> None:
    for worker in seen["looks_between_backward_and_step"]:  # each looks at a batch of its own
        assert max(worker.values()) < 1e-5
    assert same(seen, "attention_is_divided") > 0.0


def test_joining_is_refused_where_somebody_without_data_could_not_answer(seen: Seen) -> None:
    messages = same(seen, "joins_refused")
    assert len(messages) == 5
    assert all('use "pad" or "drop"' in message for message in messages)


def test_one_worker_evaluates_alone(seen: Seen) -> None:
    assert same(seen, "evaluates_alone") is True


def test_local_sgd_averages_when_it_should(seen: Seen) -> None:
    found = same(seen, "local_sgd")
    assert found["equal"] == [1, 2, 5, 8]  # at every step up to begin_step 2, then every 3
    assert found["settled"] == 0.0
    assert 0.0 < same(seen, "local_sgd_half")["far"] < 1e-3


def test_adaptive_local_sgd_follows_loss_and_rate(seen: Seen) -> None:
    found = same(seen, "adaptive")
    assert found["intervals"][0] == 2  # sqrt(4) at the first average
    assert found["after a lower rate"] == 16  # sqrt(4 x 100), cut
    refused(seen, "adaptive_without_loss", "UsageError", "model.scale_loss(loss)")


def test_post_local_joins_workers_by_an_outer_optimizer(seen: Seen) -> None:
    found = same(seen, "post_local")
    assert found["equal"] == [1, 2, 3, 4, 6, 8]
    assert found["first"] < 1e-5
    assert found["diloco"] < 0.5


def test_gradients_travel_in_half_precision(seen: Seen) -> None:
    found = same(seen, "half_all_reduce")
    assert 0.0 < found["float16"] < 1e-3
    assert 0.0 < found["bfloat16"] < 1e-2


def test_gradients_are_summed_if_asked(seen: Seen) -> None:
    assert same(seen, "summed") < 1e-5


def test_gradients_are_clipped_after_they_are_averaged(seen: Seen) -> None:
    assert max(same(seen, "clipped").values()) < 1e-5


def test_lars_and_lamb_use_the_mean_gradient(seen: Seen) -> None:
    assert max(same(seen, "large_batch").values()) < 1e-5


def test_batch_norm_sees_the_batch_of_all_workers(seen: Seen) -> None:
    found = same(seen, "sync_batch_norm")
    assert found["on"] < 1e-5
    assert found["off"] > 1e-3


def test_parameters_may_be_unused(seen: Seen) -> None:
    assert same(seen, "unused_parameters") < 1e-5


def test_buckets_have_the_sizes_of_the_strategy(seen: Seen) -> None:
    sizes = same(seen, "buckets")["sizes"]
    assert sum(sizes) == 16 * (256 * 256 + 256) * 4
    assert sizes[1] == 4 * (256 * 256 + 256) * 4  # the first layers that fill 1 MB
    assert sizes[-1] < sizes[1]  # 0.3 MB, rounded up to whole layers


def test_what_all_reduce_costs_is_counted(seen: Seen) -> None:
    step = 4 * (20 * 33 + 33 + 33 * 17 + 17 + 17 * 4 + 4)  # bytes of all gradients
    found = same(seen, "counted")
    # torch tells of a batch once the next one has begun, which is after the next look
    assert found["plain"] == [8 * step, 6]
    assert found["half"] == [4 * step / 2, 2]
    assert found["merged"][0] == 2 * step
    assert found["dgc"][0] == 4 * step
    assert (found["apart"], found["applied"]) == ([0, 0], [step, 1])
    assert found["told"] == [
        "fleet_worker_all_reduce_overlap_seconds_total",
        "fleet_worker_all_reduce_seconds_total",
        "fleet_worker_reduced_bytes_total",
        "fleet_worker_timed_all_reduces_total",
    ]
    assert found["is_true"]


def test_half_precision_trains_like_single(seen: Seen) -> None:
    found = same(seen, "half_precision")
    assert 0.0 < found["fp16"] < found["bf16"] < 0.02
    assert found["pure"] < 0.1
    assert found["single"] < 1e-5
    assert found["named"] < 1e-5


def test_steps_that_overflow_are_left_out_everywhere(seen: Seen) -> None:
    found = same(seen, "overflow")
    assert found["moved"] == [False, False, False, True]
    assert found["factors"][0] == pytest.approx(1e21)
    assert found["gap"] == 0.0
    refused(seen, "forgot_to_scale", "UsageError", "model.scale_loss(loss)", "bfloat16")


def test_a_loss_that_is_no_number_is_named_on_every_worker(seen: Seen) -> None:
    refused(seen, "not_a_number", "DivergedError", "worker 1", "not finite")


def test_another_model_is_named_on_every_worker(seen: Seen) -> None:
    refused(seen, "another_model", "UsageError", "worker 1", "'weight'", "[5, 3]", "[4, 3]")
    refused(seen, "another_layer", "UsageError", "only worker 1 has")


def test_compressed_gradients_train(seen: Seen) -> None:
    found = same(seen, "compressed")
    assert found["gap"] == 0.0
    assert found["fell"] < 0.7


def test_copies_of_a_divided_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("hybrid")
    for worker in run_cases("support.collective.collective_modes", ["hybrid_sharding"], 4, folder)["hybrid_sharding"]:
        assert "error" not in worker, worker
        assert max(worker.values()) < 1e-5
