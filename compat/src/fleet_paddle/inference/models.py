"""What a predictor runs: a program that `save_inference_model` saved, or a layer that `jit.save` did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch

from fleet_paddle.foreign.loading import head, load_inference_model
from fleet_paddle.inference.config import Config
from fleet_paddle.jit.files import load
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope, scope_guard

_ARCHIVE = b"PK"
"""How a TorchScript archive, which is a zip file, begins."""
_MODEL = ".pdmodel"


class Model(Protocol):
    """Values by name go in, values in the order of `outputs` come out."""

    inputs: list[str]
    outputs: list[str]

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """What comes out of arrays or LoDTensors by name: tensors or LoDTensors, in the order of `outputs`."""
        ...


class OfProgram:
    """A program with parameters in a scope of its own."""

    def __init__(self, config: Config) -> None:
        folder, model, params = config.files()
        self._scope, self._executor = Scope(), Executor(config.place)
        with scope_guard(self._scope):
            self._program, self.inputs, targets = load_inference_model(folder, self._executor, model, params)
        self.outputs = [target.name for target in targets]

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """Run the program."""
        return self._executor.run(self._program, dict(values), self.outputs, self._scope, return_numpy=False)


class OfLayer:
    """A layer out of a TorchScript archive; names are those of its traced inputs, and `output_0` and on."""

    def __init__(self, config: Config) -> None:
        folder, model, _ = config.files()
        self._layer = load(folder / str(model).removesuffix(_MODEL)).eval()
        self._device = config.place.device
        self._layer.to(self._device)
        script = self._layer.program
        self.inputs = [one.debugName() for one in script.forward.graph.inputs()][1:]
        made = script.forward.graph.outputs()
        counts = [one.node().inputsSize() if one.node().kind() == "prim::TupleConstruct" else 1 for one in made]
        self.outputs = [f"output_{place}" for place in range(sum(counts))]

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """Call the layer."""
        given = [torch.as_tensor(values[name]).to(self._device) for name in self.inputs]
        with torch.no_grad():
            made = self._layer.program(*given)
        return list(made) if isinstance(made, list | tuple) else [made]


def model_of(config: Config) -> Model:
    """The model that a config names, by what its file begins with."""
    folder, model, _ = config.files()
    return OfLayer(config) if model and head(folder / model).startswith(_ARCHIVE) else OfProgram(config)
