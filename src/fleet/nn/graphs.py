"""The parts of a model without tables as CUDA graphs: `strategy.cuda_graphs` (ADR 46).

With small batches a GPU is quicker than the launches of what it is to do. A part's forward and backward are recorded
once for each shape of its inputs and replayed by one launch each. Whatever a recording could not repeat runs as ever:
evaluation, other arguments than tensors, a part that is called again before the backward of its last call, parts with
hooks inside. Names, parameters and `state_dict` stay what they are; only `forward` is another one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.stateless import _reparametrize_module

from fleet.errors import UsageError
from fleet.nn.sparse import SparseModule

log = logging.getLogger(__name__)

BEFORE = 2
"""Calls of a shape before it is recorded: a last, shorter batch comes once an epoch."""
MOST = 16
"""Shapes of a part that are recorded; each keeps its activations."""
NUM_WARM_UPS = 3
LEAST_LAYERS = 3
"""A part of fewer layers has no launches to save."""

Tensors = tuple[torch.Tensor, ...]
Replay = Callable[[], object]
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


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
            module.__dict__.pop("forward", None)

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
        self._state: list[tuple[int, bool]] = []
        self._seen: Counter[Any] = Counter()
        self._graphs: dict[Any, _Graph] = {}
        self._is_given_up = False

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        graph = None if named or self._is_given_up else self._graph(inputs)
        return self._forward(*inputs, **named) if graph is None else graph(inputs, self._parameters)

    def __reduce__(self) -> Any:
        """A copy of the module runs as its class says."""
        return _forward_of, (self._module,)

    def _graph(self, inputs: tuple[Any, ...]) -> _Graph | None:
        """What replays this call; None if it has to run."""
        if not (torch.is_grad_enabled() and self._module.training and self._can_take(inputs)):
            return None
        state = [(one.data_ptr(), one.requires_grad) for one in self._parameters]
        if state != self._state:  # a recording reads and writes memory, whoever it belongs to
            self._state = state
            self._graphs.clear()
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

    def _recorded(self, inputs: Tensors) -> _Graph | None:
        hooked = next((name for name, one in self._module.named_modules() if name and _has_hooks(one)), None)
        if hooked is not None:
            self._give_up(f"{hooked!r} in it has hooks, which a recording would not call")
            return None
        # Leaves of their own over the same memory: what autograd keeps for those of the model belongs to their stream.
        leaves = {id(one): one.detach().requires_grad_(one.requires_grad) for one in self._parameters}
        by_name = {name: leaves[id(one)] for name, one in self._module.named_parameters(remove_duplicate=False)}

        def run(*given: torch.Tensor) -> Any:
            with _reparametrize_module(self._module, by_name), _without_cached_casts():
                return self._forward(*given)

        try:
            with _unchanged(self._module, self._device):
                return _Graph(run, inputs, list(leaves.values()))
        except RuntimeError as error:
            self._give_up((str(error).strip().splitlines() or [type(error).__name__])[0])
            return None

    def _give_up(self, why: str) -> None:
        self._is_given_up = True
        log.warning("strategy.cuda_graphs: part %r is not recorded, it runs as ever: %s", self._name, why)


class _Call:
    """One call whose backward may still come."""

    is_over = False


class _Graph:
    """Forward and backward for inputs of one shape."""

    def __init__(self, run: Callable[..., Any], inputs: Tensors, parameters: Sequence[torch.Tensor]) -> None:
        self._run = run
        self._inputs = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        self._wrt = [one for one in (*self._inputs, *parameters) if one.requires_grad]
        self._outputs: Tensors = ()
        self._is_one = True
        warm_up(self._forward_and_backward, inputs[0].device)
        self._kept, self._replay_forward, pool = record(self._forward, inputs[0].device, None)
        self._grads = [torch.zeros_like(one) for one in self._kept]
        found, self._replay_backward, _ = record(self._backward, inputs[0].device, pool)
        by_tensor = {id(one): grad for one, grad in zip(self._wrt, found, strict=True)}
        self._found = [by_tensor.get(id(one)) for one in (*self._inputs, *parameters)]
        self._last: ReferenceType[_Call] | None = None

    @property
    def is_free(self) -> bool:
        """Whether nobody needs the activations of the last call any more."""
        last = None if self._last is None else self._last()
        return last is None or last.is_over

    def __call__(self, inputs: Tensors, parameters: Sequence[torch.Tensor]) -> Any:
        outputs: Tensors = _Replayed.apply(self, *inputs, *parameters)  # type: ignore[no-untyped-call]
        return outputs[0] if self._is_one else outputs

    def forward(self, tensors: Sequence[torch.Tensor]) -> tuple[_Call, Tensors]:
        """Replay it; what comes out is the caller's own."""
        with torch.no_grad():
            for own, given in zip(self._inputs, tensors, strict=False):
                own.copy_(given, non_blocking=True)
        self._replay_forward()
        call = _Call()
        self._last = ref(call)
        return call, tuple(one.detach().clone() for one in self._kept)

    def backward(self, call: _Call, grads: Sequence[torch.Tensor | None]) -> Sequence[torch.Tensor | None]:
        """Replay it for a call; gradients are the graph's own, and hold until it is replayed again."""
        if self._last is None or self._last() is not call:
            raise UsageError(
                "strategy.cuda_graphs: backward() comes a second time, after the part that it goes through was called "
                "again; call backward() once for each batch, or leave cuda_graphs False"
            )
        for own, given in zip(self._grads, grads, strict=True):
            own.zero_() if given is None else own.copy_(given, non_blocking=True)
        self._replay_backward()
        call.is_over = True
        return self._found

    def _forward(self) -> Sequence[torch.Tensor]:
        found = self._run(*self._inputs)
        self._is_one = isinstance(found, torch.Tensor)
        self._outputs = (found,) if isinstance(found, torch.Tensor) else tuple(found)
        if not all(getattr(one, "requires_grad", False) for one in self._outputs):
            raise RuntimeError("it returns something else than tensors that have a gradient")
        return self._outputs

    def _backward(self) -> Sequence[torch.Tensor | None]:
        return torch.autograd.grad(self._outputs, self._wrt, self._grads, allow_unused=True)

    def _forward_and_backward(self) -> None:
        self._grads = [torch.zeros_like(one) for one in self._forward()]
        self._backward()
        self._outputs = ()  # and with them what autograd keeps for the stream of this


class _Replayed(torch.autograd.Function):
    """One call of a part: its inputs and parameters to what it returns."""

    @staticmethod
    def forward(ctx: Any, graph: _Graph, *tensors: torch.Tensor) -> Tensors:
        ctx.graph = graph
        ctx.call, outputs = graph.forward(tensors)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        # Not copies: torch copies a gradient that it is to keep and that somebody else has, too.
        return None, *ctx.graph.backward(ctx.call, grads)


def warm_up(work: Callable[[], None], device: torch.device) -> None:
    """Run it a few times, on a stream beside, as a recording needs it: libraries get their memory then."""
    beside, current = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    beside.wait_stream(current)
    with torch.cuda.stream(beside):
        for _ in range(NUM_WARM_UPS):
            work()
    current.wait_stream(beside)


def record(work: Callable[[], Sequence[Any]], device: torch.device, pool: Any) -> tuple[Sequence[Any], Replay, Any]:
    """What the work gave, what does it again in the same memory, and the pool that this comes from."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
    generator, spare = torch.cuda.default_generators[stream.device_index], torch.Generator(device)
    spare.set_state(generator.get_state())
    try:
        # Of this thread only: the one aside goes on with its own work meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            found = work()
    except RuntimeError:
        # torch leaves its stream and its random numbers in the middle of the recording.
        torch.cuda.set_stream(stream)
        generator.graphsafe_set_state(spare)
        raise
    return found, graph.replay, graph.pool()


@contextmanager
def _unchanged(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Warming up counts for nothing: buffers, such as running statistics, and random numbers are as before."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
        if state is not None:
            torch.cuda.set_rng_state(state, device)


@contextmanager
def _without_cached_casts() -> Iterator[None]:
    """Autocast keeps weights in half precision until it ends; a recording must cast those of its own time."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, hooks) for hooks in _HOOKS)


def _forward_of(module: nn.Module) -> MethodType:
    return MethodType(type(module).forward, module)
