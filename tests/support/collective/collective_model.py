"""Cases of multi/collective/test_strategies.py: a distributed model and its optimizer, whatever the strategy."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from fleet.collective.modes.reduce_grad import ReduceGrad
from fleet.collective.parts.reduced import reduced
from fleet.observe.metrics.registry import registry
from support.collective.collective_cases import (
    alone,
    batches,
    gap,
    network,
    own,
    pair,
    start,
    steps,
    strategy_of,
    train,
    with_norm,
    worst,
)


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
        "gap": gap(model),
        "mean": float(model.state_dict()["1.running_mean"].sum()),
        "names": [*model.state_dict()][:3],
        "named": [name for name, _ in model.named_parameters()][:1],
        "inner": type(model.module).__name__,
        "device": str(here.device),
    }


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
    return gap(model)


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


def loads_after_wrapping() -> float:
    """What is loaded into a model in a local mode stays, also through the next meeting."""
    fields = {"post_local": True, "post_local_configs": {"k_steps": 2}}
    here, model, optimizer = pair(strategy_of(**fields), module=nn.Linear(20, 4))
    model.load_state_dict({"weight": torch.full((4, 20), 10.0), "bias": torch.zeros(4)})
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    steps(here, model, optimizer, 2)
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
    steps(here, model, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    again = pair(strategy_of(sharding=True), "adam")
    steps(again[0], again[1], again[2], 1)
    again[2].load_state_dict(saved)
    again[1].load_state_dict(model.state_dict())
    steps(here, model, optimizer, 2)
    steps(again[0], again[1], again[2], 2)
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


def evaluates_alone() -> bool:
    """Without gradients nothing is sent, so one worker may do it."""
    _, model, _ = pair(strategy_of(), module=nn.Sequential(nn.Linear(20, 4), nn.BatchNorm1d(4)))
    if dist.get_rank() == 1:
        with torch.no_grad():
            model(torch.randn(8, 20))
    return True


def summed() -> float:
    """Gradients are added up: the same as a rate times the number of workers."""
    got = train(strategy_of(gradient_scale_configs={"scale_strategy": "sum"}), num_steps=10)
    rate = 0.1 * dist.get_world_size()
    return worst(got, alone(num_steps=10, make=lambda module: torch.optim.SGD(module.parameters(), lr=rate)))


def clipped() -> dict[str, float]:
    found = {"whole": worst(train(strategy_of(clip_norm=0.1)), alone(clip=0.1))}
    sharding = {"sharding": True, "sharding_configs": {"stage": 3, "segment_broadcast_MB": 0.001}}
    found["sharded"] = worst(train(strategy_of(clip_norm=0.1, **sharding)), alone(clip=0.1))
    return found


def sync_batch_norm() -> dict[str, float]:
    """Statistics over all workers' batches: the same as one process with the whole batch."""
    whole = alone(module=with_norm(), num_steps=20)
    return {
        "on": worst(train(strategy_of(sync_batch_norm=True), module=with_norm(), num_steps=20), whole),
        "off": worst(train(strategy_of(), module=with_norm(), num_steps=20), whole),
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
    mode = model.step_state.policy
    assert isinstance(mode, ReduceGrad)
    logged = mode.ddp._get_ddp_logging_data()
    sizes = [int(size) for size in str(logged["rebuilt_bucket_sizes"]).split(", ")]
    return {"sizes": sizes, "workers": here.worker_num()}


def counted() -> dict[str, Any]:
    """What all-reduce costs: bytes of each way to reduce, times of the batches that torch has timed."""

    def grown(num_steps: int, optimizer: str = "sgd", **fields: Any) -> list[float]:
        bytes_before, timed_before = reduced.num_bytes, reduced.num_timed
        train(strategy_of(**fields), optimizer, num_steps=num_steps)
        return [reduced.num_bytes - bytes_before, reduced.num_timed - timed_before]

    found: dict[str, Any] = {
        "plain": grown(8),
        "half": grown(4, fp16_allreduce=True),
        "merged": grown(4, gradient_merge=True, gradient_merge_configs={"k_steps": 2}),
        "dgc": grown(4, "momentum", dgc=True, dgc_configs={"rampup_begin_step": 9}),
    }
    here, model, _ = pair(strategy_of())
    before = reduced.num_bytes, reduced.num_timed
    with model.no_sync():
        for x, y in batches(2):
            cross_entropy(model(own(here, x)), own(here, y)).backward()
    found["apart"] = [reduced.num_bytes - before[0], reduced.num_timed - before[1]]
    model.apply_collective_grads()
    found["applied"] = [reduced.num_bytes - before[0], reduced.num_timed - before[1]]
    told = {sample.name: sample.value for sample in registry.read() if "reduce" in sample.name}
    found["told"] = sorted(told)
    found["is_true"] = 0 < reduced.overlap_s < reduced.seconds < 60
    return found


CASES = [
    "starts_from_worker_0",
    "accumulates",
    "forgotten_reduction",
    "unused_in_turn",
    "loads_after_wrapping",
    "looks_between_backward_and_step",
    "state_of_a_share",
    "attention_is_divided",
    "evaluates_alone",
    "summed",
    "clipped",
    "sync_batch_norm",
    "unused_parameters",
    "buckets",
    "counted",
]
