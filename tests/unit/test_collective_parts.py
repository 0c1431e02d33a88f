"""The parts of a collective step, each alone, and a job of one worker."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from fleet import DistributedStrategy, Fleet
from fleet.collective import tuning
from fleet.collective.amp import LossScale, ScaleRule
from fleet.collective.compose import MODES, refuse_contradictions
from fleet.collective.merge import Merge
from fleet.collective.model import DistributedModel
from fleet.collective.modes.adaptive import next_interval
from fleet.collective.modes.sharded import segments
from fleet.collective.recompute import recompute
from fleet.errors import (
    FleetError,
    NotReadyError,
    NotSupportedError,
    StrategyError,
    UsageError,
    UsageTypeError,
)
from support.collective_cases import strategy_of


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    one = Fleet()
    yield one
    one.shutdown()


def begin(here: Fleet, **fields: Any) -> Fleet:
    return here.init(is_collective=True, strategy=strategy_of(**fields))


def model_of(here: Fleet, module: nn.Module) -> DistributedModel:
    model = here.distributed_model(module)
    assert isinstance(model, DistributedModel)
    return model


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


def test_fields_belong_to_a_kind_of_job() -> None:
    for fields, is_collective, words in (
        ({"localsgd": True}, False, "strategy.localsgd is for collective jobs"),
        ({"dense": "allreduce"}, True, "strategy.dense is for jobs with servers"),
    ):
        with pytest.raises(NotSupportedError, match=words):
            strategy_of(**fields).require_supported(is_collective)


def test_the_loss_scale_grows_and_shrinks_by_its_rule() -> None:
    scale = LossScale(ScaleRule(8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=2, incr_ratio=4.0, decr_ratio=0.5))
    factors = []
    for has_overflowed in (False, False, True, False, True, True, True, True, True, True, True, True, True, True):
        scale.update(has_overflowed)
        factors.append(scale.factor)
    assert factors[:6] == [8.0, 32.0, 32.0, 32.0, 32.0, 16.0]
    assert min(factors) == 1.0  # never below
    other = LossScale(scale.rule)
    other.load_state_dict(scale.state_dict())
    assert other.state_dict() == scale.state_dict()
    fixed = LossScale(ScaleRule(8.0, use_dynamic_loss_scaling=False, decr_every_n_nan_or_inf=1))
    fixed.update(True)
    assert fixed.factor == 8.0


def test_unscaling_finds_what_is_not_finite() -> None:
    scale = LossScale(ScaleRule(4.0))
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


def test_auto_chooses_what_suits_the_model() -> None:
    cpu = torch.device("cpu")
    auto = strategy_of(auto=True)
    images = tuning.choose(auto, nn.Conv2d(3, 3, 1), cpu)
    assert (images.channels_last, images.fused_optimizer, images.amp, images.compile) == (True, True, False, False)
    assert not tuning.choose(auto, nn.Linear(3, 3), cpu).channels_last
    assert not any(vars(tuning.choose(DistributedStrategy(), nn.Conv2d(3, 3, 1), cpu))[name] for name in ("compile",))


def test_fused_optimizers() -> None:
    weight = nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight])
    assert tuning.fuse(adam)
    weight.grad = torch.ones(3)
    adam.step()
    assert not tuning.fuse(adam)  # it has state, which another kernel may keep elsewhere
    assert not tuning.fuse(torch.optim.LBFGS([weight]))


def test_one_worker_trains_as_plain_torch(here: Fleet) -> None:
    """World size 1: the same classes, nothing sent; every strategy that needs others is the plain step."""
    for fields in ({}, {"localsgd": True}, {"dgc": True}, {"sharding": True}, {"auto": True}, {"channels_last": True}):
        worker = Fleet()
        begin(worker, **fields)
        torch.manual_seed(0)
        module = nn.Linear(4, 2)
        plain = nn.Linear(4, 2)
        plain.load_state_dict(module.state_dict())
        model = model_of(worker, module)
        optimizer = worker.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))
        reference = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        other = torch.optim.lr_scheduler.StepLR(reference, 2, 0.5)
        for _ in range(5):
            x = torch.randn(8, 4)
            for net, opt, sched in ((model, optimizer, schedule), (plain, reference, other)):
                opt.zero_grad()
                mse_loss(net(x), torch.zeros(8, 2)).backward()
                opt.step()
                sched.step()
        assert torch.equal(module.weight, plain.weight), fields
        assert list(model.state_dict()) == ["weight", "bias"]
        assert model.in_features == 4
        with worker.join():
            pass
        worker.shutdown()
    assert here is not None


def test_a_schedule_made_before_does_not_replace_the_step(here: Fleet) -> None:
    begin(here, gradient_clip_norm=1e-6)
    module = nn.Linear(2, 1)
    before = module.weight.detach().clone()
    sgd = torch.optim.SGD(module.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5)
    optimizer = here.distributed_optimizer(sgd)
    model = model_of(here, module)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        schedule.step()
    assert float((module.weight - before).detach().abs().max()) < 1e-5
    assert optimizer.param_groups[0]["lr"] == 0.25
    saved = optimizer.state_dict()
    sgd.load_state_dict(saved)
    optimizer.param_groups[0]["lr"] = 0.0
    assert sgd.param_groups[0]["lr"] == 0.0


def test_a_scaler_of_the_users_own_works_with_a_fused_optimizer(here: Fleet) -> None:
    begin(here)
    module = nn.Linear(1, 1, bias=False)
    before = float(module.weight.detach())
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0, fused=True))
    model = model_of(here, module)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(torch.ones(1, 1)).sum()).backward()
    scaler.step(optimizer)
    assert float(module.weight.detach()) == pytest.approx(before - 1.0)


def test_clipping_and_merging_without_gradients(here: Fleet) -> None:
    begin(here, gradient_merge=True, gradient_merge_configs={"k_steps": 2}, gradient_clip_norm=1.0)
    module = nn.Linear(1, 1)
    model_of(here, module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0))
    optimizer.step()
    optimizer.step()


def test_compression_clips_in_a_job_of_one(here: Fleet) -> None:
    begin(here, dgc=True, gradient_clip_norm=1e-6)
    module = nn.Linear(1, 1, bias=False)
    before = float(module.weight.detach())
    model = model_of(here, module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0, momentum=0.9))
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert float(module.weight.detach()) == pytest.approx(before, abs=1e-5)


def test_sparse_gradients_are_not_fused_and_can_be_unscaled(here: Fleet) -> None:
    begin(here, auto=True, amp=True)
    module = nn.Embedding(4, 2, sparse=True)
    model = model_of(here, module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0))
    before = module.weight.detach().clone()
    model.scale_loss(model(torch.tensor([1])).sum()).backward()
    optimizer.step()
    assert (before - module.weight).detach().sum(dim=1).tolist() == pytest.approx([0.0, 2.0, 0.0, 0.0])


def test_images_in_three_dimensions_stay_as_they_are(here: Fleet) -> None:
    begin(here, channels_last=True)
    model = model_of(here, nn.ModuleDict({"flat": nn.Conv2d(2, 2, 1), "deep": nn.Conv3d(2, 2, 1)}))
    weights = dict(model.named_parameters())
    assert weights["flat.weight"].is_contiguous(memory_format=torch.channels_last)


def test_a_copy_of_a_recomputed_model_is_its_own(here: Fleet) -> None:
    configs = {"dtype": "bfloat16", "custom_black_list": ["linear"], "custom_black_varnames": ["1.weight"]}
    begin(here, recompute=True, recompute_configs={"checkpoints": ["0", "1"]}, amp=True, amp_configs=configs)
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model = model_of(here, module)
    here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0))
    model(torch.randn(4, 2)).sum().backward()  # computed again in the same precision
    assert int(model.state_dict()["1.num_batches_tracked"]) == 1  # and counted once
    twin = copy.deepcopy(model.module)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert float(twin(torch.ones(4, 2)).detach().abs().sum()) == 0.0


@pytest.mark.parametrize(
    ("configs", "words"),
    [({"custom_black_list": ["lineer"]}, "'lineer'"), ({"custom_black_varnames": ["wait"]}, "'wait'")],
)
def test_misspelt_names_are_refused(here: Fleet, configs: dict[str, Any], words: str) -> None:
    begin(here, amp=True, amp_configs={"dtype": "bfloat16", **configs})
    with pytest.raises(StrategyError, match=words):
        here.distributed_model(nn.Linear(1, 1))


def test_a_strategy_that_changes_too_late_is_refused(here: Fleet) -> None:
    strategy = strategy_of()
    here.init(is_collective=True, strategy=strategy)
    strategy.pipeline = True
    with pytest.raises(NotSupportedError, match="strategy.pipeline"):
        here.distributed_model(nn.Linear(1, 1))
    strategy.pipeline = False
    here.distributed_model(nn.Linear(1, 1))
    with pytest.raises(UsageError, match="another strategy"):
        here.init(strategy=strategy_of(gradient_merge=True))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DEVICE", "cuda")
    with pytest.raises(UsageError, match="torch sees no GPU; install a CUDA build of torch or use --device cpu"):
        Fleet().init(is_collective=True)


def test_either_order_and_several_models(here: Fleet) -> None:
    begin(here)
    first, second = nn.Linear(2, 2), nn.Linear(3, 3)
    optimizer = here.distributed_optimizer(torch.optim.SGD(first.parameters(), lr=0.1))
    model = model_of(here, first)
    other = model_of(here, second)
    here.distributed_optimizer(torch.optim.SGD(second.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert other.step_state.optimizer is not None


def test_mistakes(here: Fleet) -> None:
    begin(here, gradient_clip_norm=1.0)
    module = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    distributed = here.distributed_optimizer(optimizer)
    with pytest.raises(NotReadyError, match=r"fleet.distributed_model\(\)"):
        distributed.step()
    with pytest.raises(UsageTypeError, match="already"):
        here.distributed_optimizer(distributed)
    with pytest.raises(UsageTypeError, match=r"torch.nn.Module, got int"):
        here.distributed_model(3)  # type: ignore[type-var]
    with pytest.raises(UsageTypeError, match=r"Optimizer, got str"):
        here.distributed_optimizer("adam")  # type: ignore[call-overload]
    with pytest.raises(NotReadyError, match=r"fleet.distributed_optimizer\(\)"):
        model_of(here, nn.Linear(2, 2))(torch.ones(1, 2))
    model = model_of(here, module)
    with pytest.raises(UsageTypeError, match="already"):
        here.distributed_model(model)
    with pytest.raises(UsageError, match="of which this model has 2"):
        here.distributed_optimizer(torch.optim.SGD([*module.parameters(), nn.Parameter(torch.ones(1))], lr=0.1))
    with pytest.raises(NotSupportedError, match="has an optimizer already"):
        here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.1))
    with pytest.raises(UsageError, match=r"fleet.init\(\)"):
        here.distributed_optimizer(optimizer, strategy_of(localsgd=True))
    with pytest.raises(UsageError, match="a collective job has none"):
        here.init_worker()


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"lars": True}, "adam", "strategy.lars needs torch.optim.SGD with momentum, got Adam"),
        ({"dgc": True}, "sgd", "strategy.dgc needs torch.optim.SGD with momentum, got SGD"),
        ({"lamb": True}, "sgd", "strategy.lamb needs torch.optim.Adam or AdamW, got SGD"),
        ({"localsgd": True}, "adam", "use strategy.post_local"),
    ],
)
def test_strategies_that_need_another_optimizer(here: Fleet, fields: dict[str, Any], kind: str, words: str) -> None:
    begin(here, **fields)
    module = nn.Linear(2, 2)
    make = torch.optim.Adam if kind == "adam" else torch.optim.SGD
    here.distributed_model(module)
    with pytest.raises(FleetError, match=words):
        here.distributed_optimizer(make(module.parameters(), lr=0.1))
