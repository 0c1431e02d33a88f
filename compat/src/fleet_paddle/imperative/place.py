"""The device that new tensors are on: what `set_device` said, else the worker's, else a GPU if torch sees one."""

from __future__ import annotations

import torch

from fleet import api, env
from fleet.errors import NotReadyError, RoleError, UsageError
from fleet_paddle.imperative.state import chosen

__all__ = [
    "get_device",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_npu",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "set_device",
]


def set_device(device: str) -> torch.device:
    """Put new tensors and layers on 'cpu', 'gpu' or 'gpu:1'."""
    chosen.device = device_named(device, "set_device")
    return chosen.device


def device_named(device: str, what: str = "to") -> torch.device:
    """The device that 'cpu', 'gpu' or 'gpu:1' names to `what`; with FLEET_DEVICE=cpu all are the CPU."""
    kind, _, index = str(device).partition(":")
    if kind not in ("cpu", "gpu", "cuda") or (index and (kind == "cpu" or not index.isdigit())):
        raise UsageError(f"{what}: device must be 'cpu', 'gpu' or 'gpu:INDEX', got {device!r}")
    place = torch.device("cpu")
    if kind != "cpu" and env.FLEET_DEVICE.get() != "CPU":
        count = torch.cuda.device_count()
        if int(index or 0) >= count:
            raise UsageError(
                f"{what}({device!r}): torch sees {count} GPUs; to run on the CPU set FLEET_DEVICE=cpu, start with "
                f"fleetrun --device cpu, or use {what}('cpu')"
            )
        place = torch.device("cuda", int(index or 0))
    return place


def get_device() -> str:
    """'cpu' or 'gpu:INDEX': where new tensors are."""
    place = current()
    return "cpu" if place.type == "cpu" else f"gpu:{place.index or 0}"


def current() -> torch.device:
    """The device of new tensors."""
    if chosen.device is not None:
        return chosen.device
    try:
        return api.fleet.device
    except (NotReadyError, RoleError):
        is_gpu = env.FLEET_DEVICE.get() != "CPU" and torch.cuda.is_available()
        return torch.device("cuda", torch.cuda.current_device()) if is_gpu else torch.device("cpu")


def is_compiled_with_cuda() -> bool:
    """Whether torch here could use a GPU of NVIDIA."""
    return bool(torch.backends.cuda.is_built())


def is_compiled_with_rocm() -> bool:
    """Whether torch here could use a GPU of AMD."""
    return torch.version.hip is not None


def is_compiled_with_xpu() -> bool:
    """False: Kunlun's devices are not used here."""
    return False


def is_compiled_with_npu() -> bool:
    """False: Ascend's devices are not used here."""
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    """False, whatever the type: devices of plugins are not used here."""
    del device_type
    return False
