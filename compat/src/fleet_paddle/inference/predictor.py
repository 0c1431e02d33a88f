"""`Predictor`: a model with a handle for each of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.errors import UsageError
from fleet_paddle.inference.config import Config
from fleet_paddle.inference.handles import Handle, PaddleTensor
from fleet_paddle.inference.models import Model, model_of


class Predictor:
    """Runs a saved model. Predictors of one model may be used by several threads, one each: see `clone`."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = {name: Handle(name) for name in model.inputs}
        self._outputs = {name: Handle(name) for name in model.outputs}

    def get_input_names(self) -> list[str]:
        """The names of the inputs, in their order."""
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """The names of the outputs, in their order."""
        return list(self._outputs)

    def get_input_handle(self, name: str) -> Handle:
        """What takes an input's array."""
        return _known(self._inputs, name, "input")

    def get_output_handle(self, name: str) -> Handle:
        """What gives an output's array after `run`."""
        return _known(self._outputs, name, "output")

    def run(self, inputs: Sequence[PaddleTensor] | None = None) -> list[PaddleTensor] | bool:
        """Compute the outputs of what the handles have; or, as in 1.x, of a list, and give a list back."""
        if inputs is not None:
            self._take(inputs)
        values = self._model.run({name: handle.fed() for name, handle in self._inputs.items()})
        for handle, value in zip(self._outputs.values(), values, strict=True):
            handle.take(value)
        return True if inputs is None else [_given(handle) for handle in self._outputs.values()]

    def clone(self) -> Predictor:
        """Another one with handles of its own, of the same model and parameters."""
        return Predictor(self._model)

    def clear_intermediate_tensor(self) -> None:
        """Values on the way are let go where they are used last; there is nothing left to clear."""

    def try_shrink_memory(self) -> None:
        """Give memory that torch keeps for later back to the GPU."""
        torch.cuda.empty_cache()

    get_input_tensor, get_output_tensor, zero_copy_run = get_input_handle, get_output_handle, run

    def _take(self, inputs: Sequence[PaddleTensor]) -> None:
        if len(inputs) != len(self._inputs):
            raise UsageError(f"run: the model has inputs {', '.join(self._inputs)}, got {len(inputs)} tensors")
        for place, one in zip(self._inputs, inputs, strict=True):
            handle = self.get_input_handle(one.name or place)
            handle.copy_from_cpu(one.as_ndarray())
            handle.set_lod(one.lod)


def create_predictor(config: Config) -> Predictor:
    """A predictor of the model that the config names."""
    threads = config.cpu_math_library_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    return Predictor(model_of(config))


def _known(handles: dict[str, Handle], name: str, what: str) -> Handle:
    if name not in handles:
        raise UsageError(f"the model has no {what} {name!r}; it has {', '.join(handles)}")
    return handles[name]


def _given(handle: Handle) -> PaddleTensor:
    made = PaddleTensor(handle.copy_to_cpu(), handle.name())
    made.lod = handle.lod()
    return made
