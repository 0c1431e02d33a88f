"""`fluid.layers.collective`: sums over trainers inside a program."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, UsageError
from fleet_programs.jobs import collective

fluid: Any = importlib.import_module("paddle.fluid")


def test_trainers_add_up_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        value = fluid.layers.data("value", [1])
        total = fluid.layers.collective._c_allreduce(value, reduce_type="sum", use_calc_stream=True)
        same = fluid.layers.collective._c_broadcast(fluid.layers.scale(total, 2.0), root=0)
        with pytest.raises(UsageError, match="reduce_type must be 'sum', got 'max'"):
            fluid.layers.collective._c_allreduce(value, reduce_type="max")
        for one in (fluid.layers.collective._c_allreduce, fluid.layers.collective._c_broadcast):
            with pytest.raises(UsageError, match="ring_id must be 0, the ring of all trainers, got 1"):
                one(value, ring_id=1)
    assert [op.type for op in main.global_block().ops] == ["c_allreduce_sum", "scale", "c_broadcast"]
    assert total.shape == (-1, 1)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(NotReadyError, match="the trainers have not met"):
        exe.run(main, {"value": np.ones((2, 1), "float32")}, [total])
    monkeypatch.setattr(collective, "_num_workers", lambda: 1)
    found = exe.run(main, {"value": 1.5}, [total, same])
    assert [one.tolist() for one in found] == [[[1.5]], [[3.0]]]
