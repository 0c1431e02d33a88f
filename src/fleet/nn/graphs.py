"""The parts of a model without tables as CUDA graphs: `strategy.cuda_graphs` (ADR 46).

With small batches a GPU is quicker than the launches of what it is to do. A part's forward and backward are recorded
once for each shape of its inputs (`recording`) and replayed by one launch each. Whatever could not be repeated so runs
as ever: evaluation, other arguments than tensors, a part that is called again before the backward of its last call,
parts with hooks inside. Names, parameters and `state_dict` stay what they are; only `forward` is another one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.stateless import _reparametrize_module

from fleet.nn.recording import Graph, Tensors, unchanged, without_cached_casts
from fleet.nn.sparse import SparseModule

log = logging.getLogger(__name__)

BEFORE = 2
"""Calls of a shape before it is recorded: a last, shorter batch comes once an epoch."""
MOST = 16
"""Shapes of a part that are recorded; each keeps its activations."""
LEAST_LAYERS = 3
"""A part of fewer layers has no launches to save."""


def parts_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The largest modules without tables in them that have something to train, by name."""
    found: dict[int, tuple[str, nn.Module]] = {}

    def look(name: str, module: nn.Module) -> None:
        if any(isinstance(one, SparseModule) for one in module.modules()) or _has_no_forward(module):
            for child, inner in module.named_children():
                look(f"{name}.{child}".lstrip("."), inner)
        elif _num_layers(module) >= LEAST_LAYERS and any(one.requires_grad for one in module.parameters()):
            found.setdefault(id(module), (name, module))

    look("", model)
    return list(found.values())


def record_parts(model: nn.Module) -> Callable[[], None]:
    """Have every part recorded when it is called; what is returned undoes it."""
    replaced = [module for name, module in parts_of(model) if _replace(name, module)]

    def undo() -> None:
        for module in replaced:
            if isinstance(module.__dict__.get("forward"), Recorded):  # somebody may have put another one around it
                del module.__dict__["forward"]

    return undo


def _replace(name: str, module: nn.Module) -> bool:
    if "forward" in module.__dict__:  # somebody else has done so
        return False
    module.forward = Recorded(name, module)
    return True


def _has_no_forward(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.ModuleDict | nn.ParameterList | nn.ParameterDict)


def _num_layers(module: nn.Module) -> int:
    return sum(1 for one in module.modules() if next(one.children(), None) is None)


class Recorded:
    """Stands for the `forward` of a module."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self._name, self._module = name, module
        self._forward = module.forward
        self._parameters = list(module.parameters())
        self._device = self._parameters[0].device
        self._state: list[Any] = []
        self._alive: Any = ()  # what has its ids in the state: nothing else can have them so long
        self._seen: Counter[Any] = Counter()
        self._graphs: dict[Any, Graph] = {}
        self._is_given_up = False
        self._has_warned_of_hooks = False

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        graph = None if named or self._is_given_up else self._graph(inputs)
        return self._forward(*inputs, **named) if graph is None else graph(inputs, self._parameters)

    def __reduce__(self) -> Any:
        """A copy of the module runs as its class says."""
        return _forward_of, (self._module,)

    def _graph(self, inputs: tuple[Any, ...]) -> Graph | None:
        """What replays this call; None if it has to run."""
        if not (torch.is_grad_enabled() and self._module.training and self._can_take(inputs)):
            return None
        modules = _modules_of(self._module)
        if self._is_hooked(modules):
            return None
        self._look_at(modules)
        key = (
            torch.is_autocast_enabled(self._device.type),
            torch.get_autocast_dtype(self._device.type),
            *[(one.shape, one.dtype, one.requires_grad) for one in inputs],
        )
        graph = self._graphs.get(key)
        if graph is None:
            self._seen[key] += 1
            if self._seen[key] <= BEFORE or len(self._graphs) == MOST:
                return None
            graph = self._recorded(inputs)
            if graph is None:
                return None
            self._graphs[key] = graph
        return graph if graph.is_free else None

    def _can_take(self, inputs: tuple[Any, ...]) -> bool:
        return (
            bool(inputs)
            and all(isinstance(one, torch.Tensor) and one.device == self._device for one in inputs)
            and not torch.compiler.is_compiling()
        )

    def _is_hooked(self, modules: Sequence[nn.Module]) -> bool:
        """Whether somebody wants to be called inside, which a replay would not do; one warning names a module."""
        if not any(map(_has_hooks, modules[1:])) and not _has_any_global_hook():
            return False
        if not self._has_warned_of_hooks:
            self._has_warned_of_hooks = True
            name = next((name for name, one in self._module.named_modules() if name and _has_hooks(one)), None)
            who = "every module" if name is None else f"{name!r} in it"
            self._warn(f"{who} has hooks, which a recording would not call")
        return True

    def _look_at(self, modules: Sequence[nn.Module]) -> None:
        """Forget the recordings if the part has changed since: they use memory, whoever it belongs to by now."""
        tensors = [one for module in modules for one in (*module._parameters.values(), *module._buffers.values())]
        state: list[Any] = [(id(module), module.training) for module in modules]
        state += [None if one is None else (id(one), one.data_ptr(), one.requires_grad) for one in tensors]
        if state == self._state:
            return
        self._state, self._alive = state, (modules, tensors)
        self._parameters = list(self._module.parameters())
        self._graphs.clear()
        self._seen.clear()

    def _recorded(self, inputs: Tensors) -> Graph | None:
        # Leaves of their own over the same memory: what autograd keeps for those of the model belongs to their stream.
        leaves = {id(one): one.detach().requires_grad_(one.requires_grad) for one in self._parameters}
        by_name = {name: leaves[id(one)] for name, one in self._module.named_parameters(remove_duplicate=False)}

        def run(*given: torch.Tensor) -> Any:
            with _reparametrize_module(self._module, by_name), without_cached_casts():
                return self._forward(*given)

        try:
            if any(isinstance(one, nn.SyncBatchNorm) for one in self._module.modules()):
                raise RuntimeError("SyncBatchNorm talks to other workers, which may not be recording")
            with unchanged(self._module, self._device):
                return Graph(run, inputs, list(leaves.values()))
        except RuntimeError as error:
            self._is_given_up = True
            self._warn((str(error).strip().splitlines() or [type(error).__name__])[0])
            return None

    def _warn(self, why: str) -> None:
        log.warning("strategy.cuda_graphs: part %r is not recorded, it runs as ever: %s", self._name, why)


def _modules_of(module: nn.Module) -> list[nn.Module]:
    """A module, then those in it, as often as they occur; quicker than `modules()`, since every call asks."""
    found = [module]
    for one in found:
        found += [child for child in one._modules.values() if child is not None]
    return found


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _forward_of(module: nn.Module) -> MethodType:
    return MethodType(type(module).forward, module)
