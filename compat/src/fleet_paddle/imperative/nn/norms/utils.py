"""Parameters of a layer in another form: a length and a direction, divided by their largest stretch, one long row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.norms.norm import SpectralNorm
from fleet_paddle.imperative.tensor import Parameter, Tensor, as_paddle

__all__ = ["parameters_to_vector", "remove_weight_norm", "spectral_norm", "vector_to_parameters", "weight_norm"]


def weight_norm(layer: nn.Module, name: str = "weight", dim: int | None = 0) -> nn.Module:
    """Train a parameter as lengths `NAME_g` along `dim` (one for all if None) and directions `NAME_v`.

    Before each forward the layer computes the parameter from them.
    """
    weight = _taken(layer, name, "weight_norm")
    if dim is not None and not -1 <= dim < weight.dim():
        raise UsageError(f"weight_norm: dim must be None or from 0 to {weight.dim() - 1}, got {dim}")
    dim = None if dim == -1 else dim
    lengths = _lengths(weight, dim).detach().reshape([-1])
    layer.register_parameter(f"{name}_g", Parameter(lengths))
    layer.register_parameter(f"{name}_v", Parameter(weight.detach()))

    def compute(layer: nn.Module) -> torch.Tensor:
        direction: Any = getattr(layer, f"{name}_v")
        length: Any = getattr(layer, f"{name}_g")
        norms = _lengths(direction, dim)
        made: torch.Tensor = direction * (length.reshape(norms.shape) / norms)
        return made

    _compute_before_forward(layer, name, "weight_norm", compute)
    return layer


def remove_weight_norm(layer: nn.Module, name: str = "weight") -> nn.Module:
    """The parameter as it is now, trained as one again."""
    hooks: dict[str, Any] = layer.__dict__.get("_weight_norm", {})
    if name not in hooks:
        raise UsageError(f"remove_weight_norm: {type(layer).__name__}.{name} has no weight norm")
    hook = hooks.pop(name)
    for before in [one for key, one in layer._forward_pre_hooks.items() if key == hook.id]:
        before(layer, ())  # a step may have come after the last forward
    hook.remove()
    value = getattr(layer, name).detach()
    for part in (f"{name}_g", f"{name}_v"):
        del layer._parameters[part]
    delattr(layer, name)
    layer.register_parameter(name, Parameter(value))
    return layer


def spectral_norm(
    layer: nn.Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> nn.Module:
    """Divide a parameter, trained as `NAME_orig`, by its largest singular value before each forward.

    `dim` is the dimension of the outputs: by default the second for layers that hold [in, out], else the first.
    """
    weight = _taken(layer, name, "spectral_norm")
    if n_power_iterations < 1:
        raise UsageError(f"spectral_norm: n_power_iterations must be >= 1, got {n_power_iterations}")
    if dim is None:
        is_turned = type(layer).__name__ == "Linear" or "Transpose" in type(layer).__name__
        dim = 1 if is_turned else 0
    layer.register_parameter(f"{name}_orig", Parameter(weight.detach()))
    norm = SpectralNorm(list(weight.shape), dim=dim, power_iters=n_power_iterations, eps=eps)
    layer.add_module(f"{name}_spectral_norm", norm)

    def compute(layer: nn.Module) -> torch.Tensor:
        divided: torch.Tensor = getattr(layer, f"{name}_spectral_norm")(getattr(layer, f"{name}_orig"))
        return divided

    _compute_before_forward(layer, name, "spectral_norm", compute)
    return layer


def parameters_to_vector(parameters: Iterable[torch.Tensor]) -> Tensor:
    """All parameters, one behind the other, as one row."""
    return as_paddle(nn.utils.parameters_to_vector(parameters))


def vector_to_parameters(vec: torch.Tensor, parameters: Iterable[torch.Tensor]) -> None:
    """Give parameters the values of such a row."""
    nn.utils.vector_to_parameters(vec, parameters)


def _taken(layer: nn.Module, name: str, what: str) -> torch.Tensor:
    """A parameter that the layer is to compute from now on, and that it no longer holds."""
    weight = layer._parameters.get(name)
    if weight is None:
        raise UsageError(f"{what}: {type(layer).__name__} has no parameter {name!r}")
    if isinstance(weight, programs.Parameter):
        raise NotSupportedError(f"{what}: it is not built for programs; use static.nn.spectral_norm, or train tensors")
    del layer._parameters[name]
    return weight


def _compute_before_forward(
    layer: nn.Module, name: str, what: str, compute: Callable[[nn.Module], torch.Tensor]
) -> None:
    def before(layer: nn.Module, *_: Any) -> None:  # the layer that is called, which may be a copy
        object.__setattr__(layer, name, as_paddle(compute(layer)))

    before(layer)
    layer.__dict__.setdefault(f"_{what}", {})[name] = layer.register_forward_pre_hook(before)


def _lengths(weight: torch.Tensor, dim: int | None) -> torch.Tensor:
    """The lengths of what lies along `dim`, with the number of dimensions of `weight`."""
    others = [place for place in range(weight.dim()) if place != dim]
    found: torch.Tensor = torch.linalg.vector_norm(weight, dim=others, keepdim=True)
    return found
