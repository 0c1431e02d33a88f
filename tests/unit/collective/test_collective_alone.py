"""A collective job of one worker: the same classes as with many, nothing sent; and what such a job refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from fleet import Fleet
from fleet.collective.model import DistributedModel
from fleet.errors import (
    FleetError,
    NotReadyError,
    NotSupportedError,
    StrategyError,
    UsageError,
    UsageTypeError,
)
from support.collective.collective_cases import strategy_of


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
    begin(here, clip_norm=1e-6)
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
    begin(here, gradient_merge=True, gradient_merge_configs={"k_steps": 2}, clip_norm=1.0)
    module = nn.Linear(1, 1)
    model_of(here, module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=1.0))
    optimizer.step()
    optimizer.step()


def test_compression_clips_in_a_job_of_one(here: Fleet) -> None:
    begin(here, dgc=True, clip_norm=1e-6)
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
    strategy.dense = "allreduce"
    with pytest.raises(NotSupportedError, match="strategy.dense is for jobs with servers"):
        here.distributed_model(nn.Linear(1, 1))
    strategy.dense = "server"
    here.distributed_model(nn.Linear(1, 1))
    with pytest.raises(StrategyError, match=r"gradient_merge was set after fleet\.distributed_model\(\), which"):
        strategy.gradient_merge = True
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
    begin(here, clip_norm=1.0)
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
