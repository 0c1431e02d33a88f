"""Print shows values while a program runs and changes none; a step counter counts runs."""

from __future__ import annotations

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs.layers import observing
from fleet_programs.layers.io import fed
from fleet_programs.layers.nn import fc
from fleet_programs.layers.table import mean
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal


def test_print_passes_values_and_gradients_through() -> None:
    check(lambda x: observing.Print(x) * 2.0, {"x": normal(2, 3)}, lambda x: x * 2)


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ragged = (np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 3]))
    with building() as built:
        x = feed_variable("x", ragged)
        observing.Print(x, first_n=2, message="words", summarize=3)
        bare = observing.Print(
            x, 1, None, -1, False, False, print_tensor_shape=False, print_tensor_lod=False, print_phase="forward"
        )
    for fetch in ([], [bare], []):
        built.run({"x": ragged}, *fetch)
    shown = """Variable: x
  - message: words
  - lod: [[0, 1, 3]]
  - shape: [3, 2]
  - dtype: float32
  - data: [0. 1. 2. ...]
"""
    assert capsys.readouterr().out == shown + "  - data: [0. 1. 2. 3. 4. 5.]\n" + shown
    assert Program.parse_from_string(str(built.main)).to_json() == built.main.to_json()


def test_gradients_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with building() as built:
        hidden = observing.Print(fc(fed("x", [-1, 2]), 2), print_phase="backward", print_tensor_name=True)
        static.optimizer.SGD(0.1).minimize(mean(hidden))
    built.start()
    built.run({"x": np.ones((1, 2), np.float32)})
    printed = capsys.readouterr().out
    assert "data: [0.5 0.5]" in printed
    assert printed.startswith("Variable: fc_0.tmp_1@GRAD\n")


def test_a_step_counter() -> None:
    with building() as built:
        counter = observing.autoincreased_step_counter("runs", 3, 2)
        out = counter * 1
        assert observing.autoincreased_step_counter("runs") is counter
    built.start()
    assert [int(built.run({}, out)[0][0]) for _ in range(3)] == [3, 5, 7]
    built.main = built.main.clone(for_test=True)
    assert int(built.run({}, out)[0][0]) == 7


def test_bad_arguments() -> None:
    with building(), pytest.raises(UsageError, match="print_phase must be one of forward, backward, both, got 'never'"):
        observing.Print(fed("x", [2]), print_phase="never")
