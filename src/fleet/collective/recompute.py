"""Recompute: activations inside chosen modules are not kept but computed again during backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from fleet.errors import StrategyError

FIELD = "strategy.recompute_configs.checkpoints"


def recompute(module: nn.Module, names: Sequence[str], offload: bool) -> list[str]:
    """Make the submodules that `names` match recompute themselves; returns their names.

    Names are exact or have wildcards, as in `encoder.layers.*`, which means the layers and not what is inside them.
    With `offload` what is kept, the input of each, waits in host memory.
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
        submodule.forward = _recomputing(submodule.forward, offload)
    return list(chosen)


def _recomputing(forward: Callable[..., Any], offload: bool) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if not offload:
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        devices = tree_map(lambda value: value.device if isinstance(value, torch.Tensor) else None, (args, kwargs))

        def bring_back(*kept: Any, **more: Any) -> Any:
            args, kwargs = tree_map(_moved, (kept, more), devices)
            return forward(*args, **kwargs)

        args, kwargs = tree_map(lambda value: _moved(value, torch.device("cpu")), (args, kwargs))
        return checkpoint(bring_back, *args, use_reentrant=False, **kwargs)

    return run


def _moved(value: Any, device: torch.device | None) -> Any:
    return value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) and device is not None else value


def _examples(known: dict[str, nn.Module]) -> str:
    return ", ".join(list(known)[:8]) + (", ..." if len(known) > 8 else "")
