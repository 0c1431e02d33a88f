"""One recording of a module: forward and backward for inputs of one shape, each replayed by one launch (ADR 46).

A recording reads and writes memory: its parameters are leaves of their own over the model's memory, its inputs are
copies, and what it hands out are copies, too. `graphs` decides which calls it may stand for.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from fleet.errors import UsageError

NUM_WARM_UPS = 3

Tensors = tuple[torch.Tensor, ...]
Replay = Callable[[], object]


class _Call:
    """One call whose backward may still come."""

    is_over = False


class Graph:
    """Forward and backward for inputs of one shape."""

    def __init__(self, run: Callable[..., Any], inputs: Tensors, parameters: Sequence[torch.Tensor]) -> None:
        self._run = run
        self._inputs = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        self._wrt = [one for one in (*self._inputs, *parameters) if one.requires_grad]
        self._outputs: Tensors = ()
        self._kind: type = torch.Tensor
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
        return outputs[0] if self._kind is torch.Tensor else self._kind(outputs)

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
        """Replay it for a call; what comes out is the caller's own."""
        if self._last is None or self._last() is not call:
            raise UsageError(
                "strategy.cuda_graphs: backward() comes a second time, after the part that it goes through was called "
                "again; call backward() once for each batch, or leave cuda_graphs False"
            )
        for own, given in zip(self._grads, grads, strict=True):
            own.zero_() if given is None else own.copy_(given, non_blocking=True)
        self._replay_backward()
        call.is_over = True
        return _copies(self._found)

    def _forward(self) -> Sequence[torch.Tensor]:
        found = self._run(*self._inputs)
        is_one = isinstance(found, torch.Tensor)
        self._kind = torch.Tensor if is_one else type(found)
        if self._kind not in (torch.Tensor, tuple, list):
            raise RuntimeError(f"it returns a {self._kind.__name__}, not a tensor, or a tuple or list of tensors")
        self._outputs = (found,) if is_one else tuple(found)
        if not all(getattr(one, "requires_grad", False) for one in self._outputs):
            raise RuntimeError("it returns something else than tensors that have a gradient")
        return self._outputs

    def _backward(self) -> Sequence[torch.Tensor | None]:
        # Activations stay, for a second loss may go through the same call. Autocast is over when backward() is called.
        with torch.autocast(self._wrt[0].device.type, enabled=False):
            return torch.autograd.grad(self._outputs, self._wrt, self._grads, retain_graph=True, allow_unused=True)

    def _forward_and_backward(self) -> None:
        self._grads = [torch.zeros_like(one) for one in self._forward()]
        self._backward()
        self._outputs = ()  # and with them what autograd keeps for the stream of this


class _Replayed(torch.autograd.Function):
    """One call of a part: its inputs and parameters to what it returns."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, *tensors: torch.Tensor) -> Tensors:
        ctx.graph = graph
        ctx.call, outputs = graph.forward(tensors)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        return None, *ctx.graph.backward(ctx.call, grads)


def _copies(tensors: Sequence[torch.Tensor | None]) -> Sequence[torch.Tensor | None]:
    """The same values in memory that nobody else has, by one launch; torch keeps such gradients as they are."""
    made = [None if one is None else torch.empty_like(one) for one in tensors]
    there = [(new, one) for new, one in zip(made, tensors, strict=True) if new is not None and one is not None]
    with torch.no_grad():
        torch._foreach_copy_([new for new, _ in there], [one for _, one in there])
    return made


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
        with no_garbage_collected(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            found = work()
    except BaseException:
        # torch leaves its stream and its random numbers in the middle of the recording.
        torch.cuda.set_stream(stream)
        generator.graphsafe_set_state(spare)
        raise
    return found, graph.replay, graph.pool()


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    """What a collection frees may be memory or a graph of the device, and freeing those ends a recording."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def unchanged(module: nn.Module, device: torch.device) -> Iterator[None]:
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
def without_cached_casts() -> Iterator[None]:
    """Autocast keeps weights in half precision until it ends; a recording must cast those of its own time."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
