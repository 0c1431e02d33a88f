"""The cases of tests/multi/test_strategies.py: what each strategy does, seen by the workers of one job."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from fleet import Fleet
from fleet.collective.modes.local_sgd import LocalSGD
from fleet.collective.modes.reduce_grad import ReduceGrad
from fleet.optim import Lamb, Lars
from support.collective_cases import (
    alone,
    batches,
    means,
    network,
    own,
    pair,
    start,
    strategy_of,
    train,
    worst,
)


def _gap(model: Any) -> float:
    """How far the workers' parameters are apart."""
    flat = torch.cat([one.detach().flatten() for one in model.parameters()])
    largest, least = flat.clone(), flat.clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return float((largest - least).max())


def _steps(here: Fleet, model: Any, optimizer: Any, num_steps: int, gaps: bool = False) -> list[float]:
    losses, found = [], []
    for x, y in batches(num_steps):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
        if gaps:
            found.append(_gap(model))
    return found if gaps else means(losses)


def starts_from_worker_0() -> dict[str, Any]:
    """Parameters and buffers that differ are replaced by worker 0's; names stay the model's own."""
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    torch.manual_seed(dist.get_rank())
    nn.init.normal_(module[0].weight)  # type: ignore[arg-type]
    module[1].running_mean.fill_(dist.get_rank())  # type: ignore[operator]
    here, model, _ = pair(strategy_of(), module=module)
    model.check_in_sync()
    model.load_state_dict(model.state_dict())
    return {
        "gap": _gap(model),
        "mean": float(model.state_dict()["1.running_mean"].sum()),
        "names": [*model.state_dict()][:3],
        "named": [name for name, _ in model.named_parameters()][:1],
        "inner": type(model.module).__name__,
        "device": str(here.device),
    }


def drifted() -> None:
    _, model, _ = pair(strategy_of())
    with torch.no_grad():
        dict(model.named_parameters())["2.bias"][3] += dist.get_rank()
    model.check_in_sync()


def accumulates() -> dict[str, float]:
    """no_sync keeps gradients apart; the next backward, or apply_collective_grads, brings all of them together."""
    here, model, optimizer = pair(strategy_of())
    (x, y), (u, v) = batches(2)
    found: dict[str, float] = {}
    whole = network()
    (cross_entropy(whole(x), y) + cross_entropy(whole(u), v)).backward()
    expected = dict(whole.named_parameters())["0.weight"].grad
    assert expected is not None
    for way in ("backward", "apply"):
        with model.no_sync():
            cross_entropy(model(own(here, x)), own(here, y)).backward()
            if way == "apply":
                cross_entropy(model(own(here, u)), own(here, v)).backward()
        weight = dict(model.named_parameters())["0.weight"]
        assert weight.grad is not None
        local = weight.grad.clone()
        apart = local.clone()
        dist.all_reduce(apart, dist.ReduceOp.MAX)
        found[f"{way} apart"] = float((apart - local).abs().max())
        if way == "backward":
            cross_entropy(model(own(here, u)), own(here, v)).backward()
        model.apply_collective_grads()
        model.apply_collective_grads()  # a second call finds nothing to do
        found[way] = float((weight.grad - expected).abs().max())
        optimizer.zero_grad()
    return found


def forgotten_reduction() -> float:
    """A step after no_sync reduces what apply_collective_grads would have."""
    here, model, optimizer = pair(strategy_of())
    for x, y in batches(1):
        with model.no_sync():
            cross_entropy(model(own(here, x)), own(here, y)).backward()
        optimizer.step()
    return _gap(model)


class _Halves(nn.Module):
    """Each worker's batches use another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers[dist.get_rank()](x)


def unused_in_turn() -> list[float]:
    """Gradients of parameters that only one worker has are averaged with nothing, not with each other."""
    _, model, _ = pair(strategy_of(find_unused_parameters=True), module=_Halves())
    with model.no_sync():
        model(torch.full((1, 1), 2.0 + 2 * dist.get_rank())).sum().backward()
    model.apply_collective_grads()
    return [float(one.grad) for one in model.parameters() if one.grad is not None]


def around_the_model() -> None:
    """A batch that does not go through the distributed model leaves gradients that are not averaged."""
    here, model, optimizer = pair(strategy_of())
    for x, y in batches(1):
        cross_entropy(model.module(own(here, x)), own(here, y)).backward()
        optimizer.step()


def loads_after_wrapping() -> float:
    """What is loaded into a model in a local mode stays, also through the next meeting."""
    fields = {"post_local": True, "post_local_configs": {"k_steps": 2}}
    here, model, optimizer = pair(strategy_of(**fields), module=nn.Linear(20, 4))
    model.load_state_dict({"weight": torch.full((4, 20), 10.0), "bias": torch.zeros(4)})
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    _steps(here, model, optimizer, 2)
    return float(model.module.weight[0, 0])  # type: ignore[index]


def looks_between_backward_and_step() -> dict[str, float]:
    """A forward without gradients between backward and step does not keep the old parameters alive."""
    found = {}
    for stage in (2, 3):
        sharding = {"sharding": True, "sharding_configs": {"stage": stage, "segment_broadcast_MB": 0.001}}
        here, model, optimizer = pair(strategy_of(**sharding))
        whole = network()
        plain = torch.optim.SGD(whole.parameters(), lr=0.1)
        for x, y in batches(3):
            cross_entropy(model(own(here, x)), own(here, y)).backward()
            with torch.no_grad():
                model(own(here, x))
            optimizer.step()
            optimizer.zero_grad()
            cross_entropy(whole(x), y).backward()
            plain.step()
            plain.zero_grad()
            with torch.no_grad():
                found[str(stage)] = float((model(own(here, x)) - whole(own(here, x))).abs().max())
        model.check_in_sync()
    return found


def state_of_a_share() -> dict[str, Any]:
    """With stage 1 a worker's state_dict is that of its share, and can be loaded."""
    here, model, optimizer = pair(strategy_of(sharding=True), "adam")
    _steps(here, model, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    again = pair(strategy_of(sharding=True), "adam")
    _steps(again[0], again[1], again[2], 1)
    again[2].load_state_dict(saved)
    again[1].load_state_dict(model.state_dict())
    _steps(here, model, optimizer, 2)
    _steps(again[0], again[1], again[2], 2)
    pairs = zip(model.parameters(), again[1].parameters(), strict=True)
    return {"entries": len(saved["state"]) > 0, "far": max(float((a - b).detach().abs().max()) for a, b in pairs)}


def attention_is_divided() -> float:
    """Attention reads the weights of its parts by itself, so it is one segment."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
    here = start(strategy_of(sharding=True, sharding_configs={"stage": 3, "segment_broadcast_MB": 0.0001}))
    model = here.distributed_model(layer)
    optimizer = here.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    loss = model(torch.ones(2, 3, 16)).pow(2).mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def joins_refused() -> list[str]:
    """What a worker without data could not answer."""
    found = []
    for fields in (
        {"amp": True},
        {"sync_batch_norm": True},
        {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}},
        {"sharding": True},
        {"adaptive_localsgd": True},
    ):
        _, model, _ = pair(strategy_of(**fields), module=_with_norm())
        try:
            with model.join():
                pass
        except Exception as error:
            found.append(str(error))
    return found


def evaluates_alone() -> bool:
    """Without gradients nothing is sent, so one worker may do it."""
    _, model, _ = pair(strategy_of(), module=nn.Sequential(nn.Linear(20, 4), nn.BatchNorm1d(4)))
    if dist.get_rank() == 1:
        with torch.no_grad():
            model(torch.randn(8, 20))
    return True


def local_sgd() -> dict[str, Any]:
    fields = {"localsgd": True, "localsgd_configs": {"k_steps": 3, "begin_step": 2}}
    here, model, optimizer = pair(strategy_of(**fields))
    gaps = _steps(here, model, optimizer, 9, gaps=True)
    model.settle()
    return {"equal": [step for step, gap in enumerate(gaps, 1) if gap == 0.0], "settled": _gap(model)}


def local_sgd_half() -> dict[str, Any]:
    """Differences travel in half precision: workers stay equal after each average, and near the full precision."""
    fields = {"localsgd": True, "localsgd_configs": {"k_steps": 2}, "fp16_allreduce": True}
    got = train(strategy_of(**fields), "momentum", num_steps=20)
    return {"far": worst(got, train(strategy_of(**fields | {"fp16_allreduce": False}), "momentum", num_steps=20))}


def adaptive() -> dict[str, Any]:
    fields = {"adaptive_localsgd": True, "adaptive_localsgd_configs": {"init_k_steps": 4, "begin_step": 1}}
    here, model, optimizer = pair(strategy_of(**fields))
    mode = model.step_state.mode
    assert isinstance(mode, LocalSGD)
    intervals = []
    for _ in range(6):
        _steps(here, model, optimizer, 1)
        intervals.append(mode.k_steps)
    for group in optimizer.param_groups:
        group["lr"] = 0.001
    _steps(here, model, optimizer, 4)
    return {"intervals": intervals, "after a lower rate": mode.k_steps}


def adaptive_without_loss() -> None:
    train(strategy_of(adaptive_localsgd=True), num_steps=3)


def post_local() -> dict[str, Any]:
    """Averaged gradients for four steps, then local ones; the outer optimizer at rate 1 without momentum averages."""
    plain = {"k_steps": 2, "begin_step": 4, "outer_lr": 1.0, "outer_momentum": 0.0, "nesterov": False}
    here, model, optimizer = pair(strategy_of(post_local=True, post_local_configs=plain), "adam")
    gaps = _steps(here, model, optimizer, 8, gaps=True)
    first = train(strategy_of(post_local=True, post_local_configs=plain), "adam", num_steps=4)
    diloco = strategy_of(post_local=True, post_local_configs={"k_steps": 4})
    losses = train(diloco, "adam", num_steps=40)
    return {
        "equal": [step for step, gap in enumerate(gaps, 1) if gap == 0.0],
        "first": worst(first, alone("adam", num_steps=4)),
        "diloco": losses[-1] / losses[0],
    }


def half_all_reduce() -> dict[str, float]:
    found = {}
    for dtype in ("float16", "bfloat16"):
        got = train(strategy_of(fp16_allreduce=True, allreduce_dtype=dtype), num_steps=20)
        found[dtype] = worst(got, alone(num_steps=20))
    return found


def summed() -> float:
    """Gradients are added up: the same as a rate times the number of workers."""
    got = train(strategy_of(gradient_scale_configs={"scale_strategy": "sum"}), num_steps=10)
    rate = 0.1 * dist.get_world_size()
    return worst(got, alone(num_steps=10, make=lambda module: torch.optim.SGD(module.parameters(), lr=rate)))


def clipped() -> dict[str, float]:
    found = {"whole": worst(train(strategy_of(gradient_clip_norm=0.1)), alone(clip=0.1))}
    sharding = {"sharding": True, "sharding_configs": {"stage": 3, "segment_broadcast_MB": 0.001}}
    found["sharded"] = worst(train(strategy_of(gradient_clip_norm=0.1, **sharding)), alone(clip=0.1))
    return found


def large_batch() -> dict[str, float]:
    """LARS and LAMB of the mean gradient are those of one process."""
    lars = strategy_of(lars=True, lars_configs={"lars_coeff": 0.01, "exclude_from_weight_decay": ["bias"]})
    lamb = strategy_of(lamb=True, lamb_configs={"exclude_from_weight_decay": ["bias"]})

    def plain_lars(module: nn.Module) -> torch.optim.Optimizer:
        names = {one: name for name, one in module.named_parameters()}
        sgd = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        return Lars.taking_over(sgd, coeff=0.01, exclude=["bias"], names=names)

    def plain_lamb(module: nn.Module) -> torch.optim.Optimizer:
        names = {one: name for name, one in module.named_parameters()}
        return Lamb.taking_over(torch.optim.Adam(module.parameters(), lr=0.01), exclude=["bias"], names=names)

    here = start(lars)
    module = network()
    model = here.distributed_model(module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9))
    got = _steps(here, model, optimizer, 20)
    return {
        "lars": worst(got, alone(num_steps=20, make=plain_lars)),
        "lamb": worst(train(lamb, "adam", num_steps=20), alone(num_steps=20, make=plain_lamb)),
    }


def _with_norm() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


def sync_batch_norm() -> dict[str, float]:
    """Statistics over all workers' batches: the same as one process with the whole batch."""
    whole = alone(module=_with_norm(), num_steps=20)
    return {
        "on": worst(train(strategy_of(sync_batch_norm=True), module=_with_norm(), num_steps=20), whole),
        "off": worst(train(strategy_of(), module=_with_norm(), num_steps=20), whole),
    }


class _Sometimes(nn.Module):
    """Has a layer that no batch uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = network(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.used(x)


def unused_parameters() -> float:
    return worst(train(strategy_of(find_unused_parameters=True), module=_Sometimes(), num_steps=5), alone(num_steps=5))


def buckets() -> dict[str, Any]:
    """Sizes in MB as the strategy says, the one that is reduced last smaller."""
    torch.manual_seed(0)
    module = nn.Sequential(*(nn.Linear(256, 256) for _ in range(16)))  # a quarter of a MB each
    here, model, optimizer = pair(strategy_of(fuse_grad_size_in_MB=1, last_comm_group_size_MB=0.3), module=module)
    for _ in range(3):
        model(torch.randn(2, 256)).sum().backward()
        optimizer.zero_grad()
    mode = model.step_state.mode
    assert isinstance(mode, ReduceGrad)
    logged = mode.ddp._get_ddp_logging_data()
    sizes = [int(size) for size in str(logged["rebuilt_bucket_sizes"]).split(", ")]
    return {"sizes": sizes, "workers": here.worker_num()}


def half_precision() -> dict[str, Any]:
    """bfloat16 needs nothing else; float16 scales the loss, which does not change the outcome."""
    bf16 = train(strategy_of(amp=True, amp_configs={"dtype": "bfloat16"}), num_steps=30)
    fp16 = train(strategy_of(amp=True, amp_configs={"init_loss_scaling": 1024.0}), num_steps=30, asks=True)
    pure = train(strategy_of(amp=True, amp_configs={"dtype": "bfloat16", "use_pure_bf16": True}), num_steps=30)
    lists = {"dtype": "bfloat16", "custom_black_list": ["linear"]}
    single = train(strategy_of(amp=True, amp_configs=lists), num_steps=5)
    names = {"dtype": "bfloat16", "custom_black_varnames": ["weight"]}
    named = train(strategy_of(amp=True, amp_configs=names), num_steps=5)
    exact = alone(num_steps=30)
    return {
        "bf16": worst(bf16, exact),
        "fp16": worst(fp16, exact),
        "pure": worst(pure, exact),
        "single": worst(single, exact[:5]),
        "named": worst(named, exact[:5]),
    }


def overflow() -> dict[str, Any]:
    """Steps that overflow are left out, on every worker, and the scale shrinks until they do not."""
    configs = {"init_loss_scaling": 1e30, "decr_every_n_nan_or_inf": 1, "decr_ratio": 1e-9, "incr_every_n_steps": 2}
    here, model, optimizer = pair(strategy_of(amp=True, amp_configs=configs))
    weight = dict(model.named_parameters())["0.weight"]
    before = weight.detach().clone()
    factors, moved = [], []
    for x, y in batches(4):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        assert model.step_state.scale is not None
        factors.append(model.step_state.scale.factor)
        moved.append(not torch.equal(before, weight))
    return {"factors": factors, "moved": moved, "gap": _gap(model)}


def forgot_to_scale() -> None:
    train(strategy_of(amp=True), num_steps=1)


def not_a_number() -> None:
    """The loss of worker 1 is NaN; every worker says so."""
    here, model, optimizer = pair(strategy_of(amp=True))
    for x, y in batches(10):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        if here.worker_index() == 1:
            loss = loss * float("nan")
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()


def another_model() -> None:
    here = start()
    here.distributed_model(nn.Linear(3, 4 + here.worker_index()))


def another_layer() -> None:
    here = start()
    here.distributed_model(nn.Sequential(*(nn.Linear(3, 3) for _ in range(1 + here.worker_index()))))


def compressed() -> dict[str, Any]:
    """DGC with a momentum optimizer: workers stay equal, and the loss falls."""
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(20, 1024), nn.ReLU(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 4))
    fields = {"dgc": True, "dgc_configs": {"rampup_begin_step": 5, "rampup_step": 10, "sparsity": [0.75, 0.9, 0.99]}}
    here, model, optimizer = pair(strategy_of(**fields), "momentum", wide)
    losses = _steps(here, model, optimizer, 60)
    return {"fell": losses[-1] / losses[0], "gap": _gap(model)}


def hybrid_sharding() -> dict[str, float]:
    """Two copies of the model, each divided among half of the workers."""
    found = {}
    for stage in (1, 2, 3):
        configs = {"stage": stage, "hybrid_dp": True, "sharding_degree": 2, "segment_broadcast_MB": 0.001}
        got = train(strategy_of(sharding=True, sharding_configs=configs), "adam", num_steps=10)
        found[str(stage)] = worst(got, alone("adam", num_steps=10))
    return found


CASES = [
    *("forgotten_reduction", "unused_in_turn", "around_the_model", "loads_after_wrapping", "state_of_a_share"),
    *("looks_between_backward_and_step", "attention_is_divided", "joins_refused"),
    *("starts_from_worker_0", "drifted", "accumulates", "evaluates_alone", "local_sgd", "local_sgd_half", "adaptive"),
    *("adaptive_without_loss", "post_local", "half_all_reduce", "summed", "clipped", "large_batch"),
    *("sync_batch_norm", "unused_parameters", "buckets", "half_precision", "overflow", "forgot_to_scale"),
    *("not_a_number", "another_model", "another_layer", "compressed"),
]
