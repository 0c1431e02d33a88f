"""`ParamAttr` as scripts of several versions make it, and variables by name."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.tools.helpers import one_endpoint_a_machine

paddle: Any = importlib.import_module("paddle")
fluid: Any = paddle.fluid


def test_arguments_of_every_version() -> None:
    made = paddle.ParamAttr("w", None, 0.5, None, True, False, False)
    assert (made.name, made.learning_rate, made.do_model_average, made.need_clip) == ("w", 0.5, False, False)
    assert fluid.ParamAttr(name="w", gradient_clip=None).do_model_average
    clipped = fluid.ParamAttr(gradient_clip=fluid.clip.GradientClipByValue(1.0))
    with pytest.raises(NotSupportedError, match=r"gradient_clip \(GradientClipByValue\) is for programs"):
        paddle.nn.Linear(2, 1, weight_attr=clipped)


def test_what_layers_make_of_it() -> None:
    to_attr = paddle.ParamAttr._to_attr
    assert to_attr(False) is False
    assert to_attr("w").name == "w"
    assert to_attr(None).name is to_attr(True).name is None
    assert [one.name for one in to_attr(["a", "b"])] == ["a", "b"]


def test_layers_of_programs_and_of_tensors_take_it() -> None:
    half = paddle.ParamAttr("half", fluid.initializer.Constant(0.5), do_model_average=False)
    layer = paddle.nn.Linear(2, 1, weight_attr=half)
    assert np.array_equal(layer.weight, [[0.5], [0.5]])
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        fluid.layers.fc(fluid.data("x", [None, 2]), 1, param_attr=half)
        fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
        assert fluid.framework._get_var("half", fluid.default_main_program()).shape == (2, 1)
        assert np.array_equal(fluid.executor._fetch_var("half"), [[0.5], [0.5]])
        with pytest.raises(UsageError, match="the scope has no 'whole'; run the startup program first"):
            fluid.executor._fetch_var("whole")


def test_one_process_of_each_machine() -> None:
    assert one_endpoint_a_machine(["a:1", "a:2", "b:1", "b:3"]) == {"a:1", "b:1"}


@pytest.mark.parametrize("name", ["CppExtension", "CUDAExtension", "load", "setup", "BuildExtension"])
def test_operators_in_cpp_are_refused_when_one_is_made(name: str) -> None:
    extension = paddle.utils.cpp_extension.cpp_extension

    class Build(extension.BuildExtension):  # type: ignore[name-defined, misc]
        """Libraries derive theirs when they are imported."""

    made = Build if name == "BuildExtension" else getattr(extension, name)
    with pytest.raises(NotSupportedError, match=f"{name}: operators in C.. are linked against PaddlePaddle"):
        made(name="some", sources=["some.cc"])


def test_a_guard_of_half_precision_changes_nothing_and_gpus_are_torchs() -> None:
    with paddle.static.amp.fp16_guard():
        assert float(paddle.ones([1])) == 1.0
    assert paddle.device.cuda.device_count() == torch.cuda.device_count()


def test_a_script_alone_is_the_one_process_of_its_machine() -> None:
    alone = paddle.distributed.ParallelEnv()
    assert (alone.trainer_endpoints, alone.current_endpoint) == ([""], "")
    assert alone.current_endpoint in one_endpoint_a_machine(alone.trainer_endpoints)
