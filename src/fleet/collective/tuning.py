"""What makes the same training faster on the hardware at hand; `strategy.auto` switches on what fits."""

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from fleet.collective.modes.base import has_stepped
from fleet.errors import NotSupportedError
from fleet.optim.common import kind_of
from fleet.strategy import DistributedStrategy

log = logging.getLogger(__name__)

_IMAGES = (nn.Conv2d, nn.ConvTranspose2d)
_FUSED = (SGD, Adagrad, Adam, AdamW)


@dataclass(frozen=True)
class Tuning:
    """The switches that change speed and not meaning, and half precision."""

    amp: bool
    amp_dtype: torch.dtype
    compile: bool
    channels_last: bool
    fused_optimizer: bool
    benchmark_kernels: bool
    tensor_floats: bool
    """Whether products that stay float32 round their factors to TF32: beside bfloat16 nobody sees it."""


def choose(strategy: DistributedStrategy, module: nn.Module, device: torch.device, speaks: bool = False) -> Tuning:
    """What the strategy says; with `strategy.auto` also what suits the model and the device.

    On a GPU: bfloat16, TF32 for what stays float32, torch.compile, channels-last for convolutions, measured convolution
    kernels. Everywhere: the optimizer in one kernel. What the user has set stays; NotSupportedError if it is to compile
    what cannot be compiled.
    `speaks`: whether to say on one line what `auto` chose.
    """
    auto, on_gpu = strategy.auto, device.type == "cuda"
    foreign = next((name for name, one in module.named_parameters() if not _is_known_to_compilers(one)), None)
    if strategy.compile and foreign is not None:
        raise NotSupportedError(
            f"strategy.compile: torch.compile does not take layers of this kind, parameter {foreign!r} is a "
            f"{type(module.get_parameter(foreign)).__qualname__} of its own; leave it False, or use torch.nn's layers"
        )
    has_images = any(isinstance(one, _IMAGES) for one in module.modules())

    def is_wanted(name: str, suits: bool) -> bool:
        """Whether the user wants it; who has said neither yes nor no leaves it to `auto`."""
        return bool(getattr(strategy, name)) if strategy.is_set(name) else auto and suits

    auto_half = not strategy.amp and is_wanted("amp", on_gpu and torch.cuda.is_bf16_supported())
    dtype = torch.bfloat16 if auto_half or strategy.amp_configs.dtype == "bfloat16" else torch.float16
    tuning = Tuning(
        amp=strategy.amp or auto_half,
        amp_dtype=dtype,
        compile=is_wanted("compile", on_gpu and foreign is None),
        channels_last=is_wanted("channels_last", on_gpu and has_images),
        fused_optimizer=is_wanted("fused_optimizer", True) and not has_sparse_gradients(module),
        benchmark_kernels=is_wanted("cudnn_exhaustive_search", on_gpu and has_images),
        tensor_floats=auto_half,
    )
    if auto and speaks:
        _say(strategy, tuning, device)
    return tuning


def _say(strategy: DistributedStrategy, tuning: Tuning, device: torch.device) -> None:
    """Name what is switched on and was left to `auto`."""
    chosen = {
        "amp": (tuning.amp, str(tuning.amp_dtype).removeprefix("torch.")),
        "compile": (tuning.compile, "torch.compile (the first batch takes a minute)"),
        "channels_last": (tuning.channels_last, "channels-last"),
        "cudnn_exhaustive_search": (tuning.benchmark_kernels, "measured kernels for convolutions"),
        "fused_optimizer": (tuning.fused_optimizer, "fused optimizer"),
    }
    named = [text for name, (is_on, text) in chosen.items() if is_on and not strategy.is_set(name)]
    named += ["TF32 for what stays float32"] if tuning.tensor_floats else []
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)  # whoever lets it choose wants to know, and there is nothing to warn of
    log.info("strategy.auto on %s: %s", device, ", ".join(named) or "nothing to switch on")


def _is_known_to_compilers(parameter: nn.Parameter) -> bool:
    """Whether it is of torch's own class, or of one that says how it is made of others."""
    kind = type(parameter)
    return kind.__module__.partition(".")[0] == "torch" or is_traceable_wrapper_subclass(parameter)


def put_channels_last(module: nn.Module) -> None:
    """Keep the weights of two-dimensional convolutions in the order that GPUs prefer."""
    for parameter in module.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def has_sparse_gradients(module: nn.Module) -> bool:
    """Whether a module's gradients are sparse, which no fused optimizer takes."""
    return any(isinstance(one, nn.Embedding | nn.EmbeddingBag) and one.sparse for one in module.modules())


def in_channels_last(values: Any) -> Any:
    """Images inside `values` in the order that convolutions prefer; those that are in it already are not copied."""

    def one(value: Any) -> Any:
        is_image = isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point()
        return value.contiguous(memory_format=torch.channels_last) if is_image else value

    return tree_map(one, values)


def fuse(optimizer: Optimizer) -> bool:
    """Let the optimizer update all its parameters in one kernel, if torch has one for it; returns whether it has."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    if kind_of(optimizer) not in _FUSED or has_stepped(optimizer) or not all(map(_can_be_fused, parameters)):
        return False
    if any(group.get("differentiable") or group.get("capturable") for group in optimizer.param_groups):
        return False
    for settings in (optimizer.defaults, *optimizer.param_groups):
        settings["fused"], settings["foreach"] = True, False
    return True


def _can_be_fused(parameter: torch.Tensor) -> bool:
    return parameter.is_floating_point() and parameter.device.type in ("cpu", "cuda") and not parameter.is_sparse
