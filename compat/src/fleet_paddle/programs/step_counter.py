"""What scripts of PaddlePaddle make learning-rate schedules of their own from."""

from __future__ import annotations

from fleet_programs.definition.operator import SCHEDULE
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.learning_rate import COUNTER
from fleet_programs.layers.observing import autoincreased_step_counter
from fleet_programs.program.variable import Variable


def decay_step_counter(begin: int = 0) -> Variable:
    """The count of steps as a float32 of shape [1]: `begin` in the first run."""
    layer = LayerBuilder("step_counter")
    with layer.block.program.adding(SCHEDULE):
        step, out = layer.temporary(stop_gradient=True), layer.temporary(stop_gradient=True)
        count = autoincreased_step_counter(COUNTER, begin=0)
        layer.op("cast", {"X": count}, {"Out": step}, {"in_dtype": "int64", "out_dtype": "float32"})
        layer.op("scale", {"X": step}, {"Out": out}, {"scale": 1.0, "bias": float(begin)})
    return out
