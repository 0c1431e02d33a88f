"""`TracedLayer`: 1.8's and 2.0's way to save what a layer does for given inputs."""

from __future__ import annotations

import os
from typing import Any

from fleet.errors import NotSupportedError
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.jit.files import save

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

    def save_inference_model(self, path: str | os.PathLike[str], feed: Any = None, fetch: Any = None) -> None:
        """Save it, with any number of samples, for `paddle.jit.load`."""
        if feed is not None or fetch is not None:
            raise NotSupportedError("TracedLayer.save_inference_model: feed and fetch must be left out; all are saved")
        specs = [InputSpec((-1, *one.shape[1:]), one.dtype) if one.shape else one for one in self._specs]
        save(self._layer, path, specs)
