"""`ModelAverage` against the sums it stands for, and what a ParamAttr says of one parameter."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from program_support.programs import building

fluid: Any = importlib.import_module("paddle.fluid")


@pytest.fixture
def built() -> Iterator[Any]:
    fluid.disable_dygraph()
    with building() as one, fluid.scope_guard(one.scope):
        yield one


def _trained(built: Any, steps: int, rate: float, least: int, most: int) -> tuple[Any, list[float], Any]:
    """An average, the values of a weight after each step, and the executor."""
    x = fluid.data("x", [None, 1])
    out = fluid.layers.fc(
        x, 1, param_attr=fluid.ParamAttr("w", fluid.initializer.Constant(0.0)), bias_attr=fluid.ParamAttr("b")
    )
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.mean(out))
    average = fluid.optimizer.ModelAverage(rate, min_average_window=least, max_average_window=most)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    values = []
    for step in range(steps):
        exe.run(feed={"x": np.full((1, 1), step + 1.0, np.float32)})
        values.append(float(built["w"].item()))
    return average, values, exe


def _wanted(values: list[float], rate: float, least: int, most: int) -> float:
    """The mean of the open window and the one before it, by hand."""
    old: list[float] = []
    now: list[float] = []
    for step, value in enumerate(values, 1):
        now.append(value)
        if len(now) >= least and len(now) >= min(most, int(step * rate)):
            old, now = now, []
    return float(np.mean([*old, *now]))


@pytest.mark.parametrize(("rate", "least", "most"), [(0.5, 2, 100), (1.0, 1, 3), (0.2, 100, 100), (0.0, 1, 1)])
def test_an_average_is_that_of_the_last_windows(built: Any, rate: float, least: int, most: int) -> None:
    average, values, exe = _trained(built, 9, rate, least, most)
    with average.apply(exe):
        assert built["w"].item() == pytest.approx(_wanted(values, rate, least, most))
    assert built["w"].item() == values[-1]
    with average.apply(exe, need_restore=False):
        pass
    assert built["w"].item() == pytest.approx(_wanted(values, rate, least, most))
    average.restore(exe)
    assert built["w"].item() == values[-1]


def test_before_the_first_step_parameters_stay(built: Any) -> None:
    average, _, exe = _trained(built, 0, 0.5, 1, 2)
    with average.apply(exe):
        assert built["w"].item() == 0.0
    with fluid.scope_guard(fluid.Scope()), pytest.raises(NotReadyError, match="run the startup program first"):
        average.apply(exe).__enter__()


def test_parameters_may_stay_out(built: Any) -> None:
    out = fluid.layers.fc(fluid.data("x", [None, 2]), 2, param_attr=fluid.ParamAttr("w", do_model_average=False))
    fluid.layers.batch_norm(out, moving_mean_name="mean", do_model_average_for_mean_and_var=False)
    fluid.layers.batch_norm(out, moving_mean_name="mean_too")
    fluid.optimizer.ModelAverage(0.5)
    averaged = [op.input("Param")[0] for op in built.main.global_block().ops if op.type == "average_accumulates"]
    assert "fc_0.b_0" in averaged
    assert "mean_too" in averaged
    assert not {"w", "mean"} & set(averaged)


def test_refusals(built: Any) -> None:
    with pytest.raises(UsageError, match="there are no parameters to average"):
        fluid.optimizer.ModelAverage(0.5)
    with pytest.raises(NotSupportedError, match="regularization must be left out"):
        fluid.optimizer.ModelAverage(0.5, regularization=fluid.regularizer.L2Decay(0.1))


def test_a_clip_of_one_parameter(built: Any) -> None:
    clip = fluid.clip.GradientClipByValue(0.25)
    first = fluid.initializer.Constant(0.0)
    attrs = {"param_attr": fluid.ParamAttr("w", first, gradient_clip=clip), "bias_attr": fluid.ParamAttr("b", first)}
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 1]), 1, **attrs)))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.full((2, 1), 3.0, np.float32)})
    assert (built["w"].item(), built["b"].item()) == (-0.25, -1.0)
    with pytest.raises(UsageTypeError, match="gradient_clip must be a GradientClipBy"):
        fluid.ParamAttr(gradient_clip=1.0)
