"""Predictors of saved models: programs and layers, dense and ragged, by handles and by lists."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle import mode

paddle: Any = importlib.import_module("paddle")
fluid: Any = importlib.import_module("paddle.fluid")
X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    """A folder with a model of x and y, and what it gives for X and 2 X."""
    with mode.kept(), fluid.scope_guard(fluid.Scope()):
        paddle.enable_static()
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 2])
            out = fluid.layers.fc(fluid.layers.elementwise_add(x, y), 3)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            fluid.io.save_inference_model(str(tmp_path / "folder"), ["x", "y"], [out, x], exe)
            paddle.static.save_inference_model(str(tmp_path / "two"), [x, y], [out, x], exe)
            yield tmp_path, exe.run(feed={"x": X, "y": 2 * X}, fetch_list=[out])[0]


def test_handles_of_two_files(saved: tuple[Path, Any]) -> None:
    folder, wanted = saved
    config = paddle.inference.Config(str(folder / "two.pdmodel"), str(folder / "two.pdiparams"))
    config.disable_gpu()
    config.enable_memory_optim()
    config.switch_ir_optim(False)
    threads = torch.get_num_threads()
    config.set_cpu_math_library_num_threads(1)
    predictor = paddle.inference.create_predictor(config)
    assert (torch.get_num_threads(), config.ir_optim(), config.use_gpu()) == (1, False, False)
    torch.set_num_threads(threads)
    assert predictor.get_input_names() == ["x", "y"]
    given = predictor.get_input_handle("x")
    given.reshape([3, 2])
    given.copy_from_cpu(X)
    with pytest.raises(NotReadyError, match="'y' has no value yet"):
        predictor.run()
    predictor.get_input_handle("y").copy_from_cpu(2 * X)
    assert predictor.run()
    first, second = (predictor.get_output_handle(name) for name in predictor.get_output_names())
    np.testing.assert_allclose(first.copy_to_cpu(), wanted, rtol=1e-6)
    assert (first.shape(), second.copy_to_cpu().tolist(), first.lod()) == ([3, 3], X.tolist(), [])
    other = predictor.clone()
    with pytest.raises(NotReadyError):
        other.run()
    with pytest.raises(UsageError, match="the model has no input 'z'; it has x, y"):
        predictor.get_input_handle("z")


def test_lists_of_version_1(saved: tuple[Path, Any]) -> None:
    folder, wanted = saved
    predictor = fluid.core.create_paddle_predictor(fluid.core.AnalysisConfig(str(folder / "folder")))
    found, same = predictor.run([fluid.core.PaddleTensor(X), fluid.core.PaddleTensor(2 * X)])
    np.testing.assert_allclose(found.as_ndarray(), wanted, rtol=1e-6)
    assert (found.shape, same.name) == ([3, 3], "x")
    turned = [fluid.core.PaddleTensor(2 * X, "y"), fluid.core.PaddleTensor(X, "x")]
    np.testing.assert_allclose(predictor.run(turned)[0].as_ndarray(), wanted, rtol=1e-6)
    with pytest.raises(UsageError, match="the model has inputs x, y, got 1 tensors"):
        predictor.run([fluid.core.PaddleTensor(X)])


def test_ragged_rows(tmp_path: Path) -> None:
    with mode.kept(), fluid.scope_guard(fluid.Scope()):
        paddle.enable_static()
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x = fluid.data("x", [None, 2], lod_level=1)
            exe = fluid.Executor(fluid.CPUPlace())
            targets = [fluid.layers.sequence_pool(x, "sum"), fluid.layers.scale(x, 2.0)]
            fluid.io.save_inference_model(str(tmp_path), ["x"], targets, exe)
    predictor = paddle.inference.create_predictor(paddle.inference.Config(str(tmp_path)))
    given = predictor.get_input_handle("x")
    given.copy_from_cpu(X)
    given.set_lod([[0, 1, 3]])
    predictor.run()
    sums, twice = (predictor.get_output_handle(name) for name in predictor.get_output_names())
    assert sums.copy_to_cpu().tolist() == [[0, 1], [6, 8]]
    assert (twice.lod(), twice.copy_to_cpu().tolist()) == ([[0, 1, 3]], (2 * X).tolist())


def test_layers_that_jit_saved(tmp_path: Path) -> None:
    layer = paddle.nn.Linear(2, 3)
    layer.eval()
    paddle.jit.save(layer, str(tmp_path / "net"), [paddle.static.InputSpec([None, 2], "float32", "image")])
    config = paddle.inference.Config(str(tmp_path / "net.pdmodel"), str(tmp_path / "net.pdiparams"))
    predictor = paddle.inference.create_predictor(config)
    (name,) = predictor.get_input_names()
    predictor.get_input_handle(name).copy_from_cpu(X)
    predictor.run()
    (out,) = predictor.get_output_names()
    found = predictor.get_output_handle(out).copy_to_cpu()
    np.testing.assert_allclose(found, layer(paddle.to_tensor(X)).numpy(), rtol=1e-6)


def test_configs_that_cannot_be(tmp_path: Path) -> None:
    config = paddle.inference.Config()
    with pytest.raises(UsageError, match="give a folder, or the files"):
        paddle.inference.create_predictor(config)
    config.set_model(str(tmp_path / "a" / "m"), str(tmp_path / "b" / "p"))
    with pytest.raises(UsageError, match="must be in one folder"):
        paddle.inference.create_predictor(config)
    with pytest.raises(NotSupportedError, match="there is no TensorRT here"):
        config.enable_tensorrt_engine(precision_mode=paddle.inference.PrecisionType.Half)
    with pytest.raises(UsageError, match="must be >= 1, got 0"):
        config.set_cpu_math_library_num_threads(0)
