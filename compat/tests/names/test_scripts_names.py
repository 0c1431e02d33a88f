"""Names, methods and arguments of PaddlePaddle that public scripts and libraries use, as they stopped one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageTypeError
from fleet_paddle import imperative, jit, optimizer
from fleet_paddle.batches import io
from fleet_paddle.fluid import decoding
from fleet_paddle.fluid import layers as fluid_layers
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.functions import table
from fleet_paddle.jobs.older_fleet import GeneralRoleMaker
from fleet_paddle.programs import collectives
from fleet_paddle.programs.optimizers import clips
from fleet_paddle.tools import checks
from fleet_programs import layers
from fleet_programs.backward import clip

ROWS = np.arange(6, dtype="float32").reshape(3, 2)


@pytest.fixture
def executor() -> Iterator[static.Executor]:
    with (
        static.scope_guard(static.Scope()),
        static.program_guard(static.Program(), static.Program()),
        static.unique_name.guard(),
    ):
        yield static.Executor()


@pytest.mark.parametrize(
    "line",
    [
        "from paddle.fluid.layers import core",
        "from paddle.fluid.framework import convert_np_dtype_to_dtype_, core, unique_name",
        "from paddle.fluid.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype",
        "from paddle.common_ops_import import LayerHelper, Variable, core, in_dygraph_mode",
        "from paddle.common_ops_import import *",
        "from paddle.fluid.log_helper import get_logger",
        "from paddle.fluid import BatchNorm, Layer, Linear, ParallelEnv, to_variable",
        "from paddle.vision import LeNet, resnet18",
        "from paddle.fluid.dygraph.dygraph_to_static import ProgramTranslator",
        "from paddle.fluid.dygraph.dygraph_to_static.program_translator import ProgramTranslator",
        "from paddle.fluid.layers.collective import _c_allgather",
        "from paddle.fluid.transpiler.distribute_transpiler import DistributedMode",
        "from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import "
        "DistributedMode, TranspilerOptimizer, fleet",
        "from paddle.distributed.fleet.base.util_factory import UtilBase, UtilFactory",
        "from paddle.fluid.clip import append_gradient_clip_ops",
        "from paddle.jit import set_code_level, set_verbosity",
    ],
)
def test_imports(line: str) -> None:
    exec(line, {})


def test_what_is_checked_of_arguments(executor: static.Executor) -> None:
    x = static.data("x", [-1, 2])
    checks.check_variable_and_dtype(x, "x", ["float32", "float64"], "mine")
    with pytest.raises(UsageTypeError, match="mine: x must be one of int64, got float32; cast it"):
        checks.check_variable_and_dtype(x, "x", "int64", "mine")
    with pytest.raises(UsageTypeError, match="mine: x must be Variable, got int"):
        checks.check_variable_and_dtype(3, "x", "int64", "mine")
    checks.check_variable_and_dtype(imperative.ones([2]), "x", "int64", "mine")  # tensors are not looked at
    logger = checks.get_logger("scripts", logging.WARNING, fmt="%(message)s")
    assert checks.get_logger("scripts", logging.WARNING) is logger
    assert len(logger.handlers) == 1


def test_methods_of_variables_and_programs(executor: static.Executor) -> None:
    x: Any = static.data("x", [3, 2])
    assert x.to_string(True) == str(x)
    x.desc.set_shape([-1, 2])
    assert x.shape == (-1, 2)
    main = static.default_main_program()
    assert static.Program.parse_from_string(main.desc.serialize_to_string()).global_block().var("x").shape == (-1, 2)
    assert main.desc.num_blocks() == 1
    try:
        main.global_seed(7)
        assert main.random_seed == static.Program().random_seed == 7
    finally:
        main.global_seed(0)


def test_gather_takes_overwrite_either_way(executor: static.Executor) -> None:
    x, places = static.data("x", [3, 2]), static.data("i", [-1], "int64")
    made = [layers.gather(x, places, overwrite=one) for one in (True, False)]
    found = executor.run(feed={"x": ROWS, "i": np.array([2, 2])}, fetch_list=made)
    np.testing.assert_array_equal(found[0], ROWS[[2, 2]])
    np.testing.assert_array_equal(found[1], ROWS[[2, 2]])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_functions_of_a_case_may_give_other_shapes_and_types(executor: static.Executor, place: int) -> None:
    wanted = [((1, 2), "float32"), ((2, 2), "int32"), ((3,), "int32")]
    given = {n: (lambda n=n: layers.fill_constant(list(wanted[n][0]), wanted[n][1], n)) for n in range(3)}
    made = layers.switch_case(static.data("i", [1], "int32"), {0: given[0], 1: given[1]}, given[2])
    (found,) = executor.run(feed={"i": np.array([place], "int32")}, fetch_list=[made])
    assert (found.shape, found.dtype.name) == wanted[place]
    assert (found == place).all()


def test_clips_are_added_by_hand(executor: static.Executor) -> None:
    loss = layers.mean(layers.fc(static.data("x", [-1, 2]), 1, bias_attr=False))
    clip.set_gradient_clip(clip.GradientClipByValue(0.25))
    pairs = clips.append_gradient_clip_ops(static.append_backward(loss))
    executor.run(static.default_startup_program())
    (gradient,) = executor.run(feed={"x": ROWS}, fetch_list=[pairs[0][1]])
    assert gradient.max() == 0.25


def test_complex_numbers(executor: static.Executor) -> None:
    values = np.array([1 + 2j, 3 - 4j], "complex64")
    x = static.data("x", [2], "complex64")
    found = executor.run(feed={"x": values}, fetch_list=[table.real(x), table.imag(x)])
    np.testing.assert_array_equal(found, [values.real, values.imag])
    tensor: Any = imperative.to_tensor(values)
    assert tensor.dtype is torch.complex64
    assert tensor.real().tolist() == table.real(tensor).tolist() == [1.0, 3.0]
    assert tensor.imag().tolist() == [2.0, -4.0]
    assert imperative.zeros([2], "complex64").dtype is torch.complex64


def test_rows_of_all_trainers_of_one(executor: static.Executor) -> None:
    made = collectives.all_gather(static.data("x", [3, 2]), nranks=1)
    assert made.shape == (3, 2)


def test_a_beam_search_of_tensors() -> None:
    cell = nn.GRUCell(4, 4)
    decoder = decoding.BeamSearchDecoder(cell, 0, 1, 2, nn.Embedding(10, 4), nn.Linear(4, 10))
    (ids, _) = decoding.dynamic_decode(decoder, inits=cell.get_initial_states(imperative.rand([3, 4])), max_step_num=2)
    assert ids.shape[0] == 3
    assert ids.shape[2] == 2


def test_translators(caplog: pytest.LogCaptureFixture) -> None:
    def more(x: Any) -> Any:
        return fluid_layers.scale(x, 2.0)

    one = jit.ProgramTranslator()
    assert one.get_output(more, imperative.ones([2])).tolist() == [2.0, 2.0]
    assert one.get_func(jit.to_static(more)) is more
    assert "fluid_layers.scale(x, 2.0)" in one.get_code(more)
    main, _, inputs, outputs = one.get_program(more, imperative.ones([2]))
    (found,) = static.Executor().run(main, {inputs[0].name: np.ones(2, "float32")}, outputs)
    assert found.tolist() == [2.0, 2.0]
    jit.set_code_level(1)
    with caplog.at_level(logging.INFO, "fleet"):
        jit.to_static(more)(imperative.ones([2]))
    jit.set_verbosity(0)
    assert "more runs as it is written" in caplog.text


def test_traced_layers_keep_some_results(tmp_path: Path) -> None:
    class Two(nn.Layer):
        def forward(self, x: Any) -> Any:
            return x + 1, x * 2

    _, traced = jit.TracedLayer.trace(Two(), [imperative.ones([3, 2])])
    traced.set_strategy(static.BuildStrategy(), static.ExecutionStrategy())
    with pytest.raises(UsageTypeError, match="takes a BuildStrategy"):
        traced.set_strategy(3)
    traced.save_inference_model(tmp_path / "m", feed=[0], fetch=[1])
    assert jit.load(tmp_path / "m")(imperative.ones([4, 2])).tolist() == [[2.0, 2.0]] * 4
    with pytest.raises(NotSupportedError, match="feed must have all 1 inputs"):
        traced.save_inference_model(tmp_path / "m", feed=[1])


def test_gradients_are_applied_by_hand() -> None:
    layer = nn.Linear(2, 1, weight_attr=nn.initializer.Constant(1.0), bias_attr=False)
    steps = optimizer.SGD(0.5, parameters=layer.parameters())
    loss = layer(imperative.ones([1, 2])).mean()
    loss.backward()
    pairs = steps.backward(loss)
    steps.apply_gradients([(one, gradient * 2) for one, gradient in pairs])
    assert layer.weight.tolist() == [[0.0], [0.0]]


def test_numbers_may_be_tensors() -> None:
    assert imperative.full([2], imperative.to_tensor(3.0)).tolist() == [3.0, 3.0]
    shape = [imperative.to_tensor(2), 3]
    least: Any = imperative.to_tensor(0)
    assert imperative.randint(least, least + 5, shape).shape == [2, 3]


def test_small_arguments() -> None:
    assert (nn.Embedding(3, 4)._num_embeddings, nn.Embedding(3, 4)._embedding_dim) == (3, 4)
    assert len(list(io.DataLoader([1, 2, 3], batch_size=None, drop_last=True))) == 3
    role = GeneralRoleMaker(True, path="./meet")
    assert role.is_collective
    lines = static.MultiSlotStringDataGenerator()
    assert lines._gen_str([("words", ["19", "20"]), ("label", "1")]) == "2 19 20 1 1\n"


def test_lists_of_tensors() -> None:
    paddle: Any = import_module("paddle")
    made = paddle.tensor.create_array("float32", [imperative.ones([1])])
    paddle.tensor.array_write(imperative.full([1, 3], "5"), 1, made)
    assert int(paddle.tensor.array_length(made)) == 2
    assert paddle.tensor.array_read(made, imperative.ones([1], "int32")).tolist() == [[5, 5, 5]]
    with paddle.fluid.dygraph.guard():
        paddle.enable_static()
        array = paddle.tensor.create_array("float32", [layers.ones([1])])
        assert isinstance(array, static.Variable)


def test_modules_of_networks_and_images() -> None:
    paddle: Any = import_module("paddle")
    functional: Any = import_module("paddle.vision.transforms.functional")
    assert import_module("paddle.vision.models.resnet").BasicBlock is paddle.vision.models.BasicBlock
    assert import_module("paddle.vision.models.vgg").VGG is paddle.vision.VGG
    assert paddle.vision.DatasetFolder is paddle.vision.datasets.DatasetFolder
    assert paddle.vision.Resize is paddle.vision.transforms.Resize
    assert functional._is_numpy_image(ROWS)
    assert not functional._is_pil_image(ROWS)
    assert paddle._C_ops.segment_pool is paddle.fluid.core.ops.segment_pool


def test_losses_of_dygraph_and_states_of_programs() -> None:
    fluid: Any = import_module("paddle.fluid")
    for name in ("BCELoss", "L1Loss", "MSELoss", "NLLLoss"):
        assert getattr(fluid.dygraph, name) is getattr(fluid.dygraph.nn, name) is getattr(nn, name)
    assert fluid.load_program_state is fluid.io.load_program_state
    assert fluid.set_program_state is fluid.io.set_program_state
