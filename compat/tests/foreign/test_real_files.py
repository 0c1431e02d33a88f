"""Files that PaddlePaddle 2.6.2 wrote (see data/README.md) give the same values, and the same results, here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import CheckpointError
from fleet_paddle import dygraph, imperative, mode
from fleet_paddle.foreign import loading
from fleet_paddle.foreign.pickled import read_pickle
from fleet_paddle.imperative import nn
from fleet_paddle.programs.inference_files import load_inference_model

DATA = Path(__file__).parent / "data"
EXPECTED = np.load(DATA / "expected.npz")
NET = ("0.weight", "0.bias", "2.weight", "2.bias")


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_weights_of_a_layer(protocol: int) -> None:
    found = imperative.load(DATA / f"net_p{protocol}.pdparams")
    assert tuple(found) == NET
    for name, tensor in found.items():
        assert type(tensor) is imperative.Tensor
        np.testing.assert_array_equal(tensor.numpy(), EXPECTED[f"net/{name}"])
    arrays = imperative.load(DATA / f"net_p{protocol}.pdparams", return_numpy=True)
    assert all(isinstance(one, np.ndarray) for one in arrays.values())
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net.set_state_dict(found)
    given = net(imperative.to_tensor(EXPECTED["net_x"]))
    np.testing.assert_allclose(given.numpy(), EXPECTED["net_y"], rtol=1e-6)


def test_an_optimizers_state_lists_and_tensors(tmp_path: Path) -> None:
    state = imperative.load(DATA / "net.pdopt")
    assert state["linear_0.w_0_moment1_0"].shape == [3, 4]
    assert state["linear_0.w_0_beta1_pow_acc_0"].numpy() == np.float32(0.9) ** 3
    assert state["LR_Scheduler"]["last_epoch"] == 0
    assert state["LR_Scheduler"]["last_lr"] == 0.1
    first, second = imperative.load(DATA / "list.pdparams")
    assert first.tolist() == [1.5, 2.5]
    assert second["n"] == 3
    assert second["t"].tolist() == [0, 1, 2]
    assert imperative.load(DATA / "tensor.pdparams").tolist() == [1.5, 2.5]
    assert imperative.load(DATA / "one_each" / "fc_0.w_0").shape == [14, 4]
    shutil.copy(DATA / "net_p2.pdparams", tmp_path / "both.pdparams")
    shutil.copy(DATA / "net.pdopt", tmp_path / "both.pdopt")
    parameters, optimizer = dygraph.load_dygraph(tmp_path / "both")
    assert parameters is not None
    assert optimizer is not None
    assert tuple(parameters) == NET


def inferred(program: Any, feeds: list[str], targets: list[Any], exe: static.Executor) -> Any:
    assert feeds == ["img", "ids"]
    return exe.run(program, feed={name: EXPECTED[name] for name in feeds}, fetch_list=targets)[0]


def test_an_inference_model_of_two_files() -> None:
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        program, feeds, targets = load_inference_model(DATA / "infer", exe)
        np.testing.assert_allclose(inferred(program, feeds, targets, exe), EXPECTED["prob"], rtol=1e-5)
    assert [op.type for op in program.global_block().ops][:3] == ["conv2d", "elementwise_add", "relu"]
    assert str(static.Program.parse_from_string(str(program))) == str(program)


def test_an_inference_model_with_a_file_for_each_variable(tmp_path: Path) -> None:
    shutil.copytree(DATA / "one_each", tmp_path, dirs_exist_ok=True)
    shutil.copy(DATA / "infer.pdmodel", tmp_path / "__model__")
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        program, feeds, targets = loading.load_inference_model(tmp_path, exe)
        np.testing.assert_allclose(inferred(program, feeds, targets, exe), EXPECTED["prob"], rtol=1e-5)
    (tmp_path / "fc_0.b_0").unlink()
    with static.scope_guard(static.Scope()), pytest.raises(CheckpointError, match=r"cannot read .*fc_0.b_0"):
        loading.load_inference_model(tmp_path, exe)


def built() -> Any:
    """A part of the same program, made of layers here."""
    main, startup = static.Program(), static.Program()
    mode.enable_static()
    try:
        with static.program_guard(main, startup), static.unique_name.guard():
            ids = static.data("ids", [None, 2], "int64")
            found = static.layers.embedding(ids, [5, 3])
            static.layers.fc(static.layers.reshape(found, [-1, 6]), 4)
    finally:
        mode.disable_static()
    return main, startup


def test_parameters_of_a_program_that_is_built_here(tmp_path: Path) -> None:
    main, startup = built()
    values = read_pickle(DATA / "whole.pdparams")
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        shutil.copy(DATA / "whole.pdparams", tmp_path / "whole.pdparams")
        loading.load(main, tmp_path / "whole", exe, ["embedding_0.w_0"])
        tensors = static.global_scope().tensors
        np.testing.assert_array_equal(tensors["embedding_0.w_0"].numpy(), values["embedding_0.w_0"])
        with pytest.raises(
            CheckpointError, match=r"holds float32\[14, 4\], but variable 'fc_0.w_0' is float32\[6, 4\]"
        ):
            loading.load(main, tmp_path / "whole", exe)
        tensors["embedding_0.w_0"].zero_()
        loading.load_vars(exe, DATA / "one_each", main, vars=["embedding_0.w_0", "fc_0.b_0"])
        np.testing.assert_array_equal(tensors["embedding_0.w_0"].numpy(), values["embedding_0.w_0"])
        for load in (loading.load_params, loading.load_persistables):
            with pytest.raises(CheckpointError, match="fc_0.w_0' is float32"):
                load(exe, DATA / "one_each", main)
        with pytest.raises(
            CheckpointError, match="more follows after 3 variables, so it is of another program|damaged"
        ):
            loading.load_params(exe, DATA, main, filename="infer.pdiparams")
    state = loading.load_program_state(tmp_path / "whole", ["fc_0.b_0"])
    assert list(state) == ["fc_0.b_0"]
    with pytest.raises(CheckpointError, match="variable 'fc_9' is not in"):
        loading.load_program_state(tmp_path / "whole", ["fc_9"])


def test_what_fleet_saved_is_loaded_as_before(tmp_path: Path) -> None:
    main, startup = built()
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        before = static.global_scope().tensors["fc_0.w_0"].numpy().copy()
        static.io.save_persistables(exe, tmp_path / "folder", main)
        static.io.save_params(exe, tmp_path / "one", main, filename="all")
        static.save(main, tmp_path / "whole" / "model")
        loads: list[Callable[[], None]] = [
            lambda: loading.load_persistables(exe, tmp_path / "folder", main),
            lambda: loading.load_params(exe, tmp_path / "one", main, filename="all"),
            lambda: loading.load(main, tmp_path / "whole" / "model", exe),
        ]
        for load in loads:
            static.global_scope().tensors["fc_0.w_0"].zero_()
            load()
            np.testing.assert_array_equal(static.global_scope().tensors["fc_0.w_0"].numpy(), before)
        assert "fc_0.w_0" in loading.load_program_state(tmp_path / "whole" / "model")
