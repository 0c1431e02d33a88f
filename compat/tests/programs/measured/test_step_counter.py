"""Schedules that a script makes itself from the count of steps."""

from __future__ import annotations

import numpy as np

import fleet_programs as static
from fleet_paddle.programs.step_counter import decay_step_counter
from fleet_programs import layers, optimizer
from fleet_programs.program.program import Program, program_guard


def test_the_count_of_steps_begins_where_a_script_says() -> None:
    main, startup, scope = Program(), Program(), static.Scope()
    with program_guard(main, startup):
        rate = layers.scale(decay_step_counter(5), 0.5)
        loss = layers.mean(layers.fc(layers.data("x", [2]), 1))
        optimizer.SGD(rate).minimize(loss)
    exe, feed = static.Executor(), {"x": np.ones((1, 2), np.float32)}
    exe.run(startup, scope=scope)
    assert [exe.run(main, feed, [rate], scope=scope)[0].tolist() for _ in range(3)] == [[2.5], [3.0], [3.5]]
