"""The parts of a collective step, each alone."""

from __future__ import annotations

import copy
import logging
import re
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn

from fleet import DistributedStrategy
from fleet.collective import tuning
from fleet.collective.compose import MODES, make_sync_policy, refuse_contradictions
from fleet.collective.modes.adaptive import next_interval
from fleet.collective.modes.sharded import segments
from fleet.collective.parts import compiling
from fleet.collective.parts.masks import PlainMasks
from fleet.collective.parts.merge import Merge
from fleet.collective.parts.precision import LossScale
from fleet.collective.parts.recompute import recompute
from fleet.errors import (
    NotSupportedError,
    StrategyError,
)
from fleet.strategy.training import AMPConfigs
from support.collective.collective_cases import strategy_of


@pytest.mark.parametrize("one", MODES)
@pytest.mark.parametrize("other", MODES)
def test_one_way_of_coming_together_at_most(one: str, other: str) -> None:
    strategy = strategy_of(**{one: True, other: True})
    if one == other:
        refuse_contradictions(strategy)
    else:
        with pytest.raises(StrategyError, match="keep one of them"):
            refuse_contradictions(strategy)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lars": True, "lamb": True}, "strategy.lars and strategy.lamb do not go together"),
        ({"dgc": True, "fp16_allreduce": True}, "half precision"),
        ({"dgc": True, "amp": True}, "bfloat16"),
        ({"localsgd": True, "sync_batch_norm": True}, "local steps send nothing"),
        ({"localsgd": True, "lamb": True}, "SGD or momentum"),
        ({"sharding": True, "lamb": True}, "norm of whole layers"),
        (
            {"sharding": True, "gradient_merge": True, "sharding_configs": {"gradient_merge_acc_step": 2}},
            "both merge gradients",
        ),
        ({"sharding": True, "sharding_configs": {"optimize_offload": True}}, "needs stage 2 or 3"),
        ({"sharding": True, "sharding_configs": {"sharding_degree": 2, "sharding_group_size": 4}}, "two names"),
        ({"sharding": True, "sharding_configs": {"sharding_degree": 8, "sharding_group_size": 4}}, "two names"),
        ({"sharding": True, "sharding_configs": {"segment_broadcast_MB": 32, "fuse_broadcast_MB": 4}}, "two names"),
        ({"amp": True, "amp_configs": {"use_pure_bf16": True}}, "bfloat16"),
    ],
)
def test_combinations_without_sense_are_refused_with_the_reason(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(StrategyError, match=words) as caught:
        refuse_contradictions(strategy_of(**fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"dgc": True, "amp": True, "amp_configs": {"dtype": "bfloat16"}},
        {"localsgd": True, "fp16_allreduce": True, "amp": True, "lars": True},
        {"gradient_merge": True, "amp": True, "lamb": True, "recompute": True, "compile": True},
        {"sharding": True, "amp": True, "fp16_allreduce": True, "recompute": True},
        {"post_local": True, "lamb": True, "gradient_merge": True},
    ],
)
def test_combinations_that_make_sense(fields: dict[str, Any]) -> None:
    refuse_contradictions(strategy_of(**fields))


@pytest.mark.parametrize(
    ("configs", "num_workers", "words"),
    [
        ({"sharding_degree": 8}, 16, "sharding_degree = 8 with 16 workers makes several copies of the model; set"),
        ({"sharding_group_size": 8}, 16, "set hybrid_dp = True too, or leave it out"),
        ({"sharding_degree": 8}, 2, "sharding_degree = 8 does not divide 2 workers; set it to a number that does"),
        ({"sharding_degree": 4, "hybrid_dp": True}, 6, "does not divide 6 workers"),
        ({"hybrid_dp": True}, 12, "sharding_degree = 8 does not divide 12 workers"),
        ({"stage": 2, "optimize_offload": True}, 2, "this worker trains on the CPU; leave it out"),
    ],
)
def test_a_division_is_honoured_or_refused(configs: dict[str, Any], num_workers: int, words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        strategy = strategy_of(sharding=True, sharding_configs=configs)
        make_sync_policy(nn.Linear(1, 1), strategy, num_workers, torch.device("cpu"))


@pytest.mark.parametrize(
    ("configs", "num_workers", "degree"),
    [
        ({}, 16, 16),
        ({"sharding_degree": 16}, 16, 16),
        ({"hybrid_dp": True}, 16, 8),
        ({"hybrid_dp": True}, 4, 4),
        ({"hybrid_dp": True, "sharding_group_size": 2}, 4, 2),
    ],
)
def test_a_degree_that_is_not_set(configs: dict[str, Any], num_workers: int, degree: int) -> None:
    assert strategy_of(sharding_configs=configs).sharding_configs.degree(num_workers) == degree


def test_the_size_of_a_segment() -> None:
    sizes = [{}, {"segment_broadcast_MB": 32}, {"fuse_broadcast_MB": 4}, {"segment_broadcast_MB": 2}]
    assert [strategy_of(sharding_configs=one).sharding_configs.segment_mb for one in sizes] == [32.0, 32.0, 4.0, 2.0]


def test_fields_belong_to_a_kind_of_job() -> None:
    for fields, is_collective, words in (
        ({"localsgd": True}, False, "strategy.localsgd is for collective jobs"),
        ({"dense": "allreduce"}, True, "strategy.dense is for jobs with servers"),
    ):
        with pytest.raises(NotSupportedError, match=words):
            strategy_of(**fields).require_supported(is_collective)


def test_the_loss_scale_grows_and_shrinks_by_its_rule() -> None:
    every, ratios = {"incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 2}, {"incr_ratio": 4.0, "decr_ratio": 0.5}
    scale = LossScale(AMPConfigs(init_loss_scaling=8.0, **every, **ratios))
    factors = []
    for has_overflowed in (False, False, True, False, True, True, True, True, True, True, True, True, True, True):
        scale.update(has_overflowed)
        factors.append(scale.factor)
    assert factors[:6] == [8.0, 32.0, 32.0, 32.0, 32.0, 16.0]
    assert min(factors) == 1.0  # never below
    other = LossScale(scale.rule)
    other.load_state_dict(scale.state_dict())
    assert other.state_dict() == scale.state_dict()
    fixed = LossScale(AMPConfigs(init_loss_scaling=8.0, use_dynamic_loss_scaling=False, decr_every_n_nan_or_inf=1))
    fixed.update(True)
    assert fixed.factor == 8.0


def test_unscaling_finds_what_is_not_finite() -> None:
    scale = LossScale(AMPConfigs(init_loss_scaling=4.0))
    gradients = [torch.tensor([4.0, 8.0]), torch.tensor([2.0], dtype=torch.float64)]
    assert not scale.unscale_(gradients, lambda _: None, torch.device("cpu"), more=0.5)
    assert gradients[0].tolist() == [0.5, 1.0]
    assert gradients[1].tolist() == [0.25]
    assert scale.unscale_([torch.tensor([1.0, float("inf")])], lambda _: None, torch.device("cpu"))


def test_merging_counts_batches() -> None:
    merge = Merge(3)
    assert [(merge.is_last, merge.add()) for _ in range(6)] == [(False, False), (False, False), (True, True)] * 2
    assert Merge().is_last
    assert Merge(4, avg=False).factor == 1.0


@pytest.mark.parametrize(
    ("first", "now", "expected"),
    [
        ((1.0, 0.1), (1.0, 0.1), 2),  # sqrt(4)
        ((1.0, 0.1), (0.5, 0.1), 2),  # sqrt(2), rounded up
        ((1.0, 0.1), (1.0, 0.001), 16),
        ((1.0, 0.1), (1e-9, 0.1), 1),
        ((1.0, 0.1), (float("nan"), 0.1), 1),
        ((0.0, 0.1), (1.0, 0.1), 1),
    ],
)
def test_the_adaptive_interval(first: tuple[float, float], now: tuple[float, float], expected: int) -> None:
    assert next_interval(4, first, now) == expected


def test_segments_are_as_small_as_the_size_allows() -> None:
    shared = nn.Linear(8, 8)
    model = nn.ModuleDict(
        {
            "layers": nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)]),
            "small": nn.Linear(1, 1),
            "tied": nn.Sequential(shared, shared),
        }
    )
    layers = model["layers"]
    assert isinstance(layers, nn.ModuleList)
    found = segments(model, size_bytes=8 * 8 * 4)
    assert layers[0] in found
    assert not any(one is layers or one is model["small"] for one in found)


def test_recomputed_modules_give_the_same_gradients() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    twin = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    twin.load_state_dict(plain.state_dict())
    assert recompute(twin, ["[01]"], offload=True) == ["0", "1"]
    x = torch.randn(3, 4)
    gradients = []
    for model in (plain, twin):
        torch.manual_seed(1)
        model(x).sum().backward()
        gradients.append([one.grad for one in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1])
    for names, words in ((["9"], "'9'"), ([], "is empty"), (["0", "*"], "0")):
        fresh = nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.ReLU())
        if names == ["0", "*"]:
            recompute(fresh, names, offload=False)
            continue
        with pytest.raises(StrategyError, match=words):
            recompute(fresh, names, offload=False)


def test_a_compiled_model_recomputes_and_counts_statistics_once() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()), nn.Linear(4, 1))
    twin = copy.deepcopy(plain)
    recompute(twin, ["0"], offload=False)
    fast = torch.compile(twin, backend="aot_eager_decomp_partition")
    for _ in range(2):
        x = torch.randn(8, 4)
        plain(x).sum().backward()
        fast(x).sum().backward()
    torch.testing.assert_close([one.grad for one in twin.parameters()], [one.grad for one in plain.parameters()])
    torch.testing.assert_close(list(twin.buffers()), list(plain.buffers()))
    assert int(twin.get_buffer("0.1.num_batches_tracked")) == 2


def test_auto_chooses_what_suits_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    auto = strategy_of(auto=True)
    images = tuning.choose(auto, nn.Conv2d(3, 3, 1), gpu)
    assert (images.channels_last, images.benchmark_kernels, images.amp, images.compile) == (True, True, True, True)
    assert not tuning.choose(auto, nn.Linear(3, 3), gpu).channels_last
    assert images.tensor_floats
    assert not tuning.choose(strategy_of(auto=True, amp=False), nn.Linear(3, 3), gpu).tensor_floats
    there = tuning.choose(auto, nn.Conv2d(3, 3, 1), cpu)
    assert not there.tensor_floats
    assert there.fused_optimizer
    assert not any((there.channels_last, there.benchmark_kernels, there.amp, there.compile)), "these are for GPUs"
    assert tuning.choose(strategy_of(auto=True, channels_last=True), nn.Conv2d(3, 3, 1), cpu).channels_last
    said_no = strategy_of(auto=True, fused_optimizer=False, channels_last=False, cudnn_exhaustive_search=False)
    chosen = tuning.choose(said_no, nn.Conv2d(3, 3, 1), gpu)
    assert not any((chosen.fused_optimizer, chosen.channels_last, chosen.benchmark_kernels))
    assert not any(vars(tuning.choose(DistributedStrategy(), nn.Conv2d(3, 3, 1), gpu))[name] for name in ("compile",))


def test_auto_says_what_it_chose(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    images = nn.Conv2d(3, 3, 1)
    with caplog.at_level(logging.INFO, tuning.log.name):
        tuning.choose(strategy_of(auto=True, fused_optimizer=True), images, torch.device("cuda", 0), speaks=True)
        tuning.choose(strategy_of(auto=True), images, torch.device("cpu"), speaks=True)
        tuning.choose(strategy_of(auto=True, fused_optimizer=False), images, torch.device("cpu"), speaks=True)
        tuning.choose(strategy_of(auto=True), images, torch.device("cpu"))
        tuning.choose(strategy_of(), images, torch.device("cpu"), speaks=True)
    assert [record.getMessage() for record in caplog.records] == [
        "strategy.auto on cuda:0: bfloat16, torch.compile (the first batch takes a minute), channels-last, measured "
        "kernels for convolutions, TF32 for what stays float32",
        "strategy.auto on cpu: fused optimizer",
        "strategy.auto on cpu: nothing to switch on",
    ]


def test_the_search_for_kernels_is_what_the_strategy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda _, **how: made.append(how))
    for configs in ({}, {"mode": "max-autotune"}, {"kernel_search": "wide"}, {"kernel_search": "long"}):
        compiling.compiled(len, strategy_of(auto=True, compile_configs=configs))
    compiling.compiled(len, strategy_of(compile_configs={"mode": "reduce-overhead", "kernel_search": "wide"}))
    options = [how["options"] for how in made]
    assert all(isinstance(one.pop("pre_grad_custom_pass"), PlainMasks) for one in options)
    assert options[0] == {}
    assert options[1] == torch._inductor.list_mode_options("max-autotune")
    assert options[2:] == [
        {"max_autotune_pointwise": True},
        {"coordinate_descent_tuning": True},
        {"triton.cudagraphs": True, "max_autotune_pointwise": True},
    ]


def test_a_long_compilation_is_told_of_until_a_batch_goes_through(caplog: pytest.LogCaptureFixture) -> None:
    progress = compiling.CompileProgress("strategy.auto", every_s=0.01)
    weight = torch.ones(1, requires_grad=True)
    until = threading.Event()

    def wait_for_a_line(grad: torch.Tensor) -> torch.Tensor:
        before = len(caplog.records)
        deadline = time.monotonic() + 60
        while len(caplog.records) == before and time.monotonic() < deadline:
            until.wait(0.001)
        return grad

    def batch(compiles: bool) -> None:
        with progress.forward():
            outputs = weight * 2
        if compiles:
            weight.register_hook(wait_for_a_line)
        progress.backward_of({"outputs": outputs})
        outputs.backward()

    with caplog.at_level(logging.WARNING):
        batch(compiles=True)
        assert re.fullmatch(r"strategy.auto: compiling the model, \d+ s so far", caplog.records[0].getMessage())
        weight = torch.ones(1, requires_grad=True)
        progress._every_s = 60.0
        batch(compiles=False)
        assert re.fullmatch(r"strategy.auto: compiled the model in \d+ s", caplog.records[-1].getMessage())
        caplog.clear()
        batch(compiles=False)
    assert not caplog.records
    assert not [one for one in threading.enumerate() if one.name == "fleet-compile-progress"]


def test_fused_optimizers() -> None:
    weight = nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight])
    assert tuning.fuse(adam)
    weight.grad = torch.ones(3)
    adam.step()
    assert not tuning.fuse(adam)  # it has state, which another kernel may keep elsewhere
    assert not tuning.fuse(torch.optim.LBFGS([weight]))
