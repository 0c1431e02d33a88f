"""`set_flags` and `get_flags`: the global switches of PaddlePaddle that mean something here, under their names.

A flag is set in torch, or says how memory is taken and let go, which changes no result and is torch's to decide; any
other is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError, UsageTypeError

__all__ = ["get_flags", "set_flags"]


def _deterministic(value: Any) -> None:
    torch.backends.cudnn.deterministic = bool(value)


def _benchmark(value: Any) -> None:
    torch.backends.cudnn.benchmark = bool(value)


def _threads(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"set_flags: FLAGS_paddle_num_threads must be a number from 1, got {value!r}")
    torch.set_num_threads(value)


_SET: dict[str, tuple[Callable[[Any], None], Callable[[], Any]]] = {
    "FLAGS_cudnn_deterministic": (_deterministic, lambda: torch.backends.cudnn.deterministic),
    "FLAGS_cudnn_exhaustive_search": (_benchmark, lambda: torch.backends.cudnn.benchmark),
    "FLAGS_paddle_num_threads": (_threads, torch.get_num_threads),
}
_OF_MEMORY: dict[str, Any] = {
    "FLAGS_allocator_strategy": "auto_growth",
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_fast_eager_deletion_mode": True,
    "FLAGS_fraction_of_cpu_memory_to_use": 1.0,
    "FLAGS_fraction_of_gpu_memory_to_use": 1.0,
    "FLAGS_initial_gpu_memory_in_mb": 0,
    "FLAGS_memory_fraction_of_eager_deletion": 1.0,
    "FLAGS_reallocate_gpu_memory_in_mb": 0,
}
_INSTEAD = {
    "FLAGS_benchmark": "measure with torch.profiler.profile()",
    "FLAGS_check_nan_inf": "use torch.autograd.set_detect_anomaly(True)",
    "FLAGS_selected_gpus": "use paddle.set_device, or start with fleetrun --gpus",
}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set flags, given by name: all that are given, or none."""
    if not isinstance(flags, Mapping):
        raise UsageTypeError(f"set_flags: flags must be a dict of names and values, got {type(flags).__name__}")
    _check(flags)
    for name, value in flags.items():
        if name in _SET:
            _SET[name][0](value)
        else:
            _OF_MEMORY[name] = value


def get_flags(flags: str | Sequence[str]) -> dict[str, Any]:
    """The values of some flags, by name."""
    names = [flags] if isinstance(flags, str) else list(flags)
    _check(names)
    return {name: _SET[name][1]() if name in _SET else _OF_MEMORY[name] for name in names}


def _check(names: Any) -> None:
    for name in names:
        if name not in _SET and name not in _OF_MEMORY:
            remedy = _INSTEAD.get(name, f"there are {', '.join(sorted((*_SET, *_OF_MEMORY)))}")
            raise NotSupportedError(f"the flag {name} is not built; {remedy}")
