"""Layers of recurrent cells over variables: one operator, or one for each layer where values are dropped between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleet_paddle.programs.ops.recurrent.rnn import num_states
from fleet_paddle.rows.function_builder import function_builder
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


@dataclass(frozen=True)
class Network:
    """What kind of network it is; `mode` is a key of `programs.ops.recurrent.rnn.GATES`."""

    mode: str
    hidden_size: int
    num_layers: int = 1
    is_bidirec: bool = False
    time_major: bool = False
    dropout: float = 0.0
    """The share of what one layer gives the next that is zero while training."""
    is_test: bool = False

    def __call__(
        self, x: Variable, weights: Sequence[Variable], states: Sequence[Variable], lengths: Variable | None
    ) -> tuple[Variable, list[Variable]]:
        """All outputs and the last states; `states`, none or all, and the last ones are [layers * ways, batch, size].

        `weights` are those of each layer, and of each direction of it, one after the other.
        """
        layer = function_builder(self.mode.lower())
        if not self.dropout or self.num_layers == 1:
            return self._add(layer, self.num_layers, x, weights, states, lengths)
        ways, each = 2 if self.is_bidirec else 1, len(weights) // self.num_layers
        ends: list[list[Variable]] = []
        for place in range(self.num_layers):
            if place:
                how = "upscale_in_train"
                x = layers.dropout(x, self.dropout, self.is_test, dropout_implementation=how)
            own = [layers.slice(one, [0], [place * ways], [(place + 1) * ways]) for one in states]
            x, last = self._add(layer, 1, x, weights[place * each : (place + 1) * each], own, lengths)
            ends.append(last)
        return x, [layers.concat(list(several), 0) for several in zip(*ends, strict=True)]

    def _add(
        self,
        layer: LayerBuilder,
        number: int,
        x: Variable,
        weights: Sequence[Variable],
        states: Sequence[Variable],
        lengths: Variable | None,
    ) -> tuple[Variable, list[Variable]]:
        layer.variable(x, "inputs")
        out, last = layer.temporary(x.dtype), [layer.temporary(x.dtype) for _ in range(num_states(self.mode))]
        inputs: dict[str, Any] = {"Input": x, "WeightList": list(weights), "PreState": list(states)}
        if lengths is not None:
            inputs["SequenceLength"] = layer.variable(lengths, "sequence_length")
        attrs = {
            "mode": self.mode,
            "hidden_size": self.hidden_size,
            "num_layers": number,
            "is_bidirec": self.is_bidirec,
            "time_major": self.time_major,
        }
        layer.op("rnn", inputs, {"Out": out, "State": last}, attrs)
        return out, last


def step(
    mode: str, x: Variable, weights: Sequence[Variable], states: Sequence[Variable], hidden_size: int
) -> list[Variable]:
    """The states after one step of a cell, [batch, size]."""
    layer = function_builder(f"{mode.lower()}_cell")
    layer.variable(x, "inputs")
    made = [layer.temporary(x.dtype) for _ in range(num_states(mode))]
    inputs = {"Input": x, "WeightList": list(weights), "PreState": [layer.variable(one, "states") for one in states]}
    layer.op("rnn_cell", inputs, {"State": made}, {"mode": mode, "hidden_size": hidden_size})
    return made
