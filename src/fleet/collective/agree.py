"""Whether all workers have built the same model, asked before anything depends on it."""

import json
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fleet.collective.parts.average import broadcast_
from fleet.collective.world.worlds import Alone, GlooWorld, World, dtype_name
from fleet.errors import UsageError

Entry = list[Any]


def world() -> World:
    """The world of all workers, for small messages between them."""
    group = dist.group.WORLD if dist.is_initialized() else None
    return Alone() if group is None or group.size() == 1 else GlooWorld(group, "worker")


def refuse_lazy(module: nn.Module) -> None:
    """UsageError for a parameter or buffer that has no shape before the first batch, as those of nn.LazyLinear."""
    for name, one in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(one, nn.UninitializedParameter | nn.UninitializedBuffer):
            raise UsageError(
                f"{name!r} of this model is lazy and has no shape yet, so workers cannot share it; run a batch through "
                "the model before fleet.distributed_model() and before the optimizer is made"
            )


def check_same_model(module: nn.Module) -> None:
    """UsageError on every worker if one has another model; the message names the first difference."""
    own = [*map(_describe, module.named_parameters()), *map(_describe, module.named_buffers())]
    everybody = [json.loads(text) for text in world().gather_bytes(json.dumps(own).encode())]
    for rank, other in enumerate(everybody):
        if other != everybody[0]:
            raise UsageError(
                f"worker {rank} has another model than worker 0: {_difference(everybody[0], other, rank)}; "
                "build the same model on every worker"
            )


def share_values(module: nn.Module) -> None:
    """Give every worker the parameters and buffers of worker 0."""
    if world().size > 1:
        broadcast_([one.detach() for one in (*module.parameters(), *module.buffers())], 0)


def check_same_values(module: nn.Module) -> None:
    """UsageError on every worker if parameters or buffers have drifted apart."""
    named = [*module.named_parameters(), *module.named_buffers()]
    sums = torch.stack([_fingerprint(tensor.detach()) for _, tensor in named]) if named else torch.zeros(0, 2)
    # As texts, in which a NaN equals itself.
    own = [repr(pair) for pair in sums.tolist()]
    everybody = [json.loads(text) for text in world().gather_bytes(json.dumps(own).encode())]
    for place, (name, _) in enumerate(named):
        odd = [rank for rank, values in enumerate(everybody) if values[place] != everybody[0][place]]
        if odd:
            raise UsageError(
                f"{name!r} differs between worker 0 and worker {', '.join(map(str, odd))}; "
                "somebody changed it without the others, or a batch was run outside the distributed model"
            )


def _fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    values = whole.double().flatten().cpu()
    return torch.stack([values.sum(), (values * torch.arange(1, len(values) + 1)).sum()])


def _describe(named: tuple[str, torch.Tensor]) -> Entry:
    name, tensor = named
    return [name, list(tensor.shape), dtype_name(tensor.dtype), tensor.requires_grad]


def _difference(first: list[Entry], other: list[Entry], rank: int) -> str:
    if len(first) == len(other):
        for mine, theirs in zip(first, other, strict=True):
            if mine != theirs:
                return f"{_show(theirs)} there, {_show(mine)} on worker 0"
    names, others = {entry[0] for entry in first}, {entry[0] for entry in other}
    if extra := sorted(others - names):
        return f"only worker {rank} has {extra[0]!r}"
    return f"only worker 0 has {min(names - others)!r}"


def _show(entry: Entry) -> str:
    name, shape, dtype, is_trained = entry
    return f"{name!r} is {dtype} {shape}{'' if is_trained else ', not trained,'}"
