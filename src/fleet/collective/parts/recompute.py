"""Recompute: activations inside chosen modules are not kept but computed again during backward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from fleet.collective.parts.sync_batch_norm import OwnBatchNorm
from fleet.errors import StrategyError

FIELD = "strategy.recompute_configs.checkpoints"

Surroundings = AbstractContextManager[Any]


def recompute(
    module: nn.Module, names: Sequence[str], offload: bool, surroundings: Surroundings | None = None
) -> list[str]:
    """Make the submodules that `names` match recompute themselves; returns their names.

    Names are exact or have wildcards, as in `encoder.layers.*`, which means the layers and not what is inside them.
    With `offload` what is kept, the input of each, waits in host memory. `surroundings`: what forward runs inside and
    the second forward must too, beside autocast and the random numbers, which torch sees to.
    """
    known = {name: submodule for name, submodule in module.named_modules() if name}
    if not names:
        raise StrategyError(f"{FIELD} is empty; name the submodules to recompute, such as {_examples(known)}")
    chosen: dict[str, nn.Module] = {}
    for pattern in names:
        depth = pattern.count(".")
        found = {name: one for name, one in known.items() if name.count(".") == depth and fnmatchcase(name, pattern)}
        if not found:
            raise StrategyError(f"{FIELD} names {pattern!r}, which this model does not have; it has {_examples(known)}")
        chosen |= found
    for name, submodule in chosen.items():
        if any(name.startswith(f"{outer}.") for outer in chosen):
            raise StrategyError(f"{FIELD} names {name!r} and a module around it; name one of them")
        # A partial of a bound method, so that a deep copy of the model has the copy's.
        submodule.forward = partial(_run, submodule, submodule.forward, offload, surroundings)
    return list(chosen)


def _run(
    module: nn.Module,
    forward: Callable[..., Any],
    offload: bool,
    surroundings: Surroundings | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)

    # A compiled model computes the operations of its one graph again: precision is in them, and statistics are counted
    # beside them. torch's compiler takes no contexts of ours either.
    how: dict[str, Any] = (
        {} if torch.compiler.is_compiling() else {"context_fn": partial(_contexts, module, surroundings)}
    )
    if not offload:
        return checkpoint(forward, *args, use_reentrant=False, **how, **kwargs)
    devices = tree_map(lambda value: value.device if isinstance(value, torch.Tensor) else None, (args, kwargs))
    kept = tree_map(lambda value: _moved(value, torch.device("cpu")), (args, kwargs))
    again: Callable[..., Any] = partial(_bring_back, forward, devices)
    return checkpoint(again, *kept[0], use_reentrant=False, **how, **kept[1])


def _contexts(module: nn.Module, surroundings: Surroundings | None) -> tuple[Surroundings, Surroundings]:
    return nullcontext(), _second_time(module, surroundings)


def _bring_back(forward: Callable[..., Any], devices: Any, *kept: Any, **more: Any) -> Any:
    args, kwargs = tree_map(_moved, (kept, more), devices)
    return forward(*args, **kwargs)


def _moved(value: Any, device: torch.device | None) -> Any:
    return value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) and device is not None else value


@contextmanager
def _second_time(module: nn.Module, surroundings: Surroundings | None) -> Iterator[None]:
    """Batch norm has counted this batch in its running statistics already."""
    with ExitStack() as stack:
        if surroundings is not None:
            stack.enter_context(surroundings)
        for norm in module.modules():
            if isinstance(norm, _BatchNorm) and norm.num_batches_tracked is not None:
                stack.callback(norm.num_batches_tracked.copy_, norm.num_batches_tracked.clone())
                stack.callback(setattr, norm, "momentum", norm.momentum)
                norm.momentum = 0.0
            elif isinstance(norm, OwnBatchNorm):
                stack.callback(setattr, norm, "is_counting", norm.is_counting)
                norm.is_counting = False
        yield


def _examples(known: dict[str, nn.Module]) -> str:
    return ", ".join(list(known)[:8]) + (", ..." if len(known) > 8 else "")
