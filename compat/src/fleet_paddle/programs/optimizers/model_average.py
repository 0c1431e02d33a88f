"""`ModelAverage`: plain averages of parameters over the last steps, which often predict better than the last values.

SGD(0.1).minimize(loss)
average = ModelAverage(0.15, min_average_window=10000, max_average_window=20000)
...
with average.apply(exe):
    exe.run(test_program, ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle.programs.ops.training.averages import KEPT
from fleet_programs.definition.operator import OPTIMIZE
from fleet_programs.optimizer.moving_average import Averages, kept
from fleet_programs.parameters.settings import number
from fleet_programs.program.notes import AVERAGE_NOTE
from fleet_programs.program.program import default_main_program


class ModelAverage(Averages):
    """Averages of every parameter that the default program has, from now on part of each of its steps.

    The average is over the last steps: up to twice `average_window_rate` of all, and at least `min_average_window` and
    up to `max_average_window` of them, before older ones are forgotten. Parameters made with
    ParamAttr(do_model_average=False) stay as they are.
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if regularization is not None:
            raise NotSupportedError("ModelAverage: regularization must be left out; give it to the optimizer")
        attrs = {
            "average_window": number("ModelAverage", "average_window_rate", average_window_rate, least=0),
            "min_average_window": int(number("ModelAverage", "min_average_window", min_average_window, least=0)),
            "max_average_window": int(number("ModelAverage", "max_average_window", max_average_window, least=1)),
        }
        program = default_main_program()
        block, left_out = program.global_block(), program.notes.get(AVERAGE_NOTE, ())
        parameters = [one for one in block.all_parameters() if one.name not in left_out]
        if not parameters:
            raise UsageError("ModelAverage: there are no parameters to average; make it after optimizer.minimize(loss)")
        self._kept: dict[str, dict[str, str]] = {}
        with program.adding(OPTIMIZE):
            for one in parameters:
                own = {
                    slot: kept(f"{one.name}_{name or ''}{stem}", shape, 0, dtype)
                    for slot, stem, shape, dtype in (
                        ("Sum1", "sum_1", one.shape, one.dtype),
                        ("Sum2", "sum_2", one.shape, one.dtype),
                        ("Sum3", "sum_3", one.shape, one.dtype),
                        ("NumAccumulates", "num_accumulates", (1,), "int64"),
                        ("OldNumAccumulates", "old_num_accumulates", (1,), "int64"),
                        ("NumUpdates", "num_updates", (1,), "int64"),
                    )
                }
                outputs = {f"{slot}Out": own[slot] for slot in KEPT}
                block.append_op("average_accumulates", {"Param": one, **own}, outputs, attrs)
                self._kept[one.name] = {slot: var.name for slot, var in own.items()}

    def averages(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        found = {}
        for name, own in self._kept.items():
            if own["NumUpdates"] not in tensors:
                raise NotReadyError("ModelAverage.apply: there are no averages; run the startup program first")
            sums, counts = ([tensors[own[slot]] for slot in slots] for slots in (KEPT[:3], KEPT[3:5]))
            count = int(sum(counts))
            if count > 0:  # before the first step there is nothing to average
                found[name] = torch.stack(sums).sum(0) / count
        return found
