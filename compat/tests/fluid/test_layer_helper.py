"""Layers that scripts write of operators."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_paddle import mode

fluid: Any = importlib.import_module("paddle.fluid")
LayerHelper = fluid.layer_helper.LayerHelper

X = np.array([[1.0, -2.0, 3.0], [0.0, 4.0, -1.0]], np.float32)


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    with mode.kept(), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        mode.enable_static()  # whatever another test has said
        yield


def line(
    input: Any, size: int, param_attr: Any = None, bias_attr: Any = None, act: Any = None, name: Any = None
) -> Any:
    """A layer as scripts write it."""
    helper = LayerHelper("line", **locals())
    dtype = helper.input_dtype()
    weight = helper.create_parameter(helper.param_attr, [input.shape[-1], size], dtype)
    product = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type="mul", inputs={"X": [input], "Y": [weight]}, outputs={"Out": [product]})
    return helper.append_activation(helper.append_bias_op(product))


def test_a_layer_of_a_script_is_trained_like_fc() -> None:
    first = fluid.initializer.Constant(0.5)
    x = fluid.data("x", [None, 3])
    ours = line(x, 2, fluid.ParamAttr("ours", first), fluid.ParamAttr("our_bias", first), "relu")
    theirs = fluid.layers.fc(
        x, 2, act="relu", param_attr=fluid.ParamAttr("theirs", first), bias_attr=fluid.ParamAttr("bias", first)
    )
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(ours) + fluid.layers.mean(theirs))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for _ in range(2):
        found = exe.run(feed={"x": X}, fetch_list=[ours, theirs, "ours", "theirs", "our_bias", "bias"])
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(found[2], np.full([3, 2], 0.5))


def test_names_are_those_of_layers() -> None:
    x = fluid.data("x", [None, 3])
    line(x, 2)
    line(x, 2, name="mine")
    names = set(fluid.default_main_program().global_block().vars)
    assert {"line_0.w_0", "line_0.b_0", "mine.w_0", "mine.b_0"} <= names


def test_variables_that_last_and_are_filled_at_the_start() -> None:
    helper = LayerHelper("counter")
    made, is_new = helper.create_or_get_global_variable("count", shape=[1], dtype="float32", persistable=True)
    assert is_new
    assert helper.create_or_get_global_variable("count") == (made, False)
    helper.set_variable_initializer(made, fluid.initializer.Constant(3.0))
    helper.append_op(type="increment", inputs={"X": made}, outputs={"Out": made}, attrs={"step": 1.0})
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    assert [exe.run(fetch_list=["count"])[0].item() for _ in range(2)] == [4.0, 5.0]


def test_no_bias_no_activation() -> None:
    x = fluid.data("x", [None, 3])
    line(x, 2, bias_attr=False)
    assert [op.type for op in fluid.default_main_program().global_block().ops] == ["mul"]


def test_what_cannot_be() -> None:
    with pytest.raises(UsageTypeError, match="line: input must be a Variable, got ndarray"):
        line(X, 2)
    x, whole = fluid.data("x", [None, 3]), fluid.data("whole", [None, 3], "int64")
    with pytest.raises(UsageError, match="line: input must be one variable, got 2"):
        LayerHelper("line", input=[x, x]).input()
    with pytest.raises(UsageError, match="inputs must have one type, got float32, int64; cast them"):
        LayerHelper("line", input=[x, whole]).input_dtype()
    with fluid.dygraph.guard(), pytest.raises(NotSupportedError, match=r"operators are added to programs; call paddle"):
        LayerHelper("line")
