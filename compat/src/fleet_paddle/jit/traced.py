"""`TracedLayer`: 1.8's and 2.0's way to save what a layer does for given inputs."""

from __future__ import annotations

import os
from typing import Any

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.jit.files import save
from fleet_programs import BuildStrategy, ExecutionStrategy

__all__ = ["TracedLayer"]


class TracedLayer:
    """A layer and what describes its inputs; `trace` makes it."""

    def __init__(self, layer: Any, inputs: list[Any]) -> None:
        self._layer = layer
        self._specs = [InputSpec.from_tensor(one) for one in inputs]

    @staticmethod
    def trace(layer: Any, inputs: Any) -> tuple[Any, TracedLayer]:
        """What the layer gives for these inputs, and the layer to be saved."""
        several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        return layer(*several), TracedLayer(layer, several)

    def __call__(self, inputs: Any) -> list[Any]:
        """What the layer gives, in a list."""
        made = self._layer(*(inputs if isinstance(inputs, list | tuple) else [inputs]))
        return list(made) if isinstance(made, list | tuple) else [made]

    def set_strategy(self, build_strategy: Any = None, exec_strategy: Any = None) -> None:
        """Check what a program of the layer would be compiled with; there is none, and results are the same."""
        for given, kind in ((build_strategy, BuildStrategy), (exec_strategy, ExecutionStrategy)):
            if given is not None and not isinstance(given, kind):
                raise UsageTypeError(f"set_strategy takes a {kind.__name__}, got {type(given).__name__}")

    def save_inference_model(self, path: str | os.PathLike[str], feed: Any = None, fetch: Any = None) -> None:
        """Save it, with any number of samples, for `paddle.jit.load`; `fetch` has the places of the results to keep."""
        if feed is not None and sorted(feed) != list(range(len(self._specs))):
            raise NotSupportedError(
                f"TracedLayer.save_inference_model: feed must have all {len(self._specs)} inputs, got {list(feed)}"
            )
        specs = [InputSpec((-1, *one.shape[1:]), one.dtype) if one.shape else one for one in self._specs]
        save(self._layer if fetch is None else _Some(self._layer, list(fetch)), path, specs)


class _Some(Layer):
    """A layer of which some results are kept."""

    def __init__(self, layer: Any, places: list[int]) -> None:
        super().__init__()
        self._layer, self._places = layer, places

    def forward(self, *inputs: Any) -> Any:
        made = self._layer(*inputs)
        several = list(made) if isinstance(made, list | tuple) else [made]
        kept = [several[place] for place in self._places]
        return kept[0] if len(kept) == 1 else kept
