"""A compiled program recorded as a CUDA graph and replayed.

What a step writes to persistable variables must be written in place: an address that changes could not be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fleet.errors import UsageError

NUM_WARM_UPS = 2


class Replayed:
    """The step as CUDA graphs: one for each combination of feed shapes and parameter addresses."""

    def __init__(
        self, core: Callable[..., tuple[Any, ...]], reads: Sequence[str], generator: torch.Generator | None
    ) -> None:
        self._core = core
        self._reads = tuple(reads)
        self._generator = generator
        self._graphs: dict[tuple[Any, ...], _Graph] = {}

    def __call__(self, scope: dict[str, torch.Tensor], feeds: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        held = [scope[name] for name in self._reads]
        key = (*[tensor.shape for tensor in feeds], *[tensor.data_ptr() for tensor in held])
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = _Graph(self._core, held, feeds, self._generator)
        return graph.run(feeds)


class _Graph:
    def __init__(
        self,
        core: Callable[..., tuple[Any, ...]],
        held: list[torch.Tensor],
        feeds: Sequence[torch.Tensor],
        generator: torch.Generator | None,
    ) -> None:
        if any(tensor.device.type != "cuda" for tensor in (*held, *feeds)):
            raise UsageError("BuildStrategy.cuda_graph needs a program on a GPU; run it with CUDAPlace(0)")
        self._inputs = [tensor.clone() for tensor in feeds]
        before = [tensor.clone() for tensor in held]
        state = None if generator is None else generator.get_state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(NUM_WARM_UPS):
                core(*held, *self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        for tensor, value in zip(held, before, strict=True):
            tensor.copy_(value)  # warming up has trained: it must not count
        self._graph = torch.cuda.CUDAGraph()
        if generator is not None:
            generator.set_state(state)  # type: ignore[arg-type]
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph):
            self._outputs = core(*held, *self._inputs)

    def run(self, feeds: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        for own, given in zip(self._inputs, feeds, strict=True):
            own.copy_(given, non_blocking=True)
        self._graph.replay()
        return tuple(output.clone() for output in self._outputs)
