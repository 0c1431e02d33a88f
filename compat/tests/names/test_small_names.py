"""Small modules that scripts import beside the large ones: text, tools, curves, types of variables."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle.dataset.common import md5file

paddle: Any = import_module("paddle")
compat, fluid, framework, utils = paddle.compat, paddle.fluid, paddle.framework, paddle.utils
core = fluid.core


def test_text_and_bytes_inside_of_anything() -> None:
    given: Any = [b"a", "b", {b"c"}, {b"k": b"v"}, 3, None]
    assert compat.to_text(given) == ["a", "b", {"c"}, {"k": "v"}, 3, None]
    assert given[0] == b"a"
    assert compat.to_text(given, inplace=True) is given
    assert given[3] == {"k": "v"}
    assert compat.to_bytes(["é", {"a"}], "latin-1") == [b"\xe9", {b"a"}]
    chosen: set[Any] = {"a", "b"}
    assert compat.to_bytes(chosen, inplace=True) is chosen == {b"a", b"b"}


def test_numbers_round_away_from_zero() -> None:
    assert [compat.round(x) for x in (0.5, 1.5, 2.5, -0.5, -2.5)] == [1, 2, 3, -1, -3]
    assert compat.round(1.25, 1) == 1.3
    assert str(compat.round(-0.1)) == "-0.0"
    assert compat.floor_division(-7, 2) == -4
    assert compat.get_exception_message(ValueError("why")) == "why"
    assert compat.long_type is int


def test_an_import_that_fails_says_what_to_install() -> None:
    assert utils.try_import("json").dumps([1]) == "[1]"
    with pytest.raises(ImportError, match=r"no_such_thing.part is not installed; use pip install no_such_thing$"):
        utils.try_import("no_such_thing.part")
    with pytest.raises(ImportError, match="^get it$"):
        utils.try_import("no_such_thing", "get it")


def test_old_functions_warn_and_work() -> None:
    def old(x: int) -> int:
        """Twice."""
        return 2 * x

    old = utils.deprecated(update_to="new", since="2.0", reason="It was slow.")(old)
    with pytest.warns(DeprecationWarning, match=r"old is deprecated since 2.0; use new. It was slow."):
        assert old(3) == 6
    assert old.__doc__ == "Twice."
    with pytest.raises(RuntimeError, match="is deprecated"):
        utils.deprecated(level=2)(lambda: 3)()


def test_files_are_found_and_never_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = utils.download.get_path_from_url
    with pytest.raises(UsageError, match=rf"^http://h/a.txt: nothing is downloaded here; put it at {tmp_path}/a.txt$"):
        find("http://h/a.txt", str(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    assert find("http://h/a.txt", str(tmp_path), md5file(tmp_path / "a.txt")) == str(tmp_path / "a.txt")
    with pytest.raises(UsageError, match="is not the file of http://h/a.txt: its MD5 checksum is"):
        find("http://h/a.txt", str(tmp_path), "0")
    with pytest.raises(UsageError, match=rf"unpack it to {tmp_path}/b$"):
        find("http://h/b.tar.gz", str(tmp_path))
    (tmp_path / "b").mkdir()
    assert find("http://h/b.tar.gz", str(tmp_path)) == str(tmp_path / "b")
    with pytest.raises(UsageError, match=rf"unpack it to {tmp_path}/c.en-vi$"):
        find("http://h/c.en-vi.tar.gz", str(tmp_path))
    (tmp_path / "c.en-vi").mkdir()
    assert find("http://h/c.en-vi.tar.gz", str(tmp_path)) == str(tmp_path / "c.en-vi")
    monkeypatch.setenv("FLEET_DATA_HOME", str(tmp_path))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.pdparams").write_text("x")
    assert utils.download.get_weights_path_from_url("http://h/w.pdparams") == str(tmp_path / "weights" / "w.pdparams")


def test_curves(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = utils.plot.Ploter("train cost", "test cost")
    curves.append("train cost", 0, np.float32(2.5))
    curves.plot()
    with pytest.raises(UsageError, match="has no curve 'cost'; it has train cost, test cost"):
        curves.append("cost", 0, 1.0)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with caplog.at_level(logging.WARNING):
        curves.plot(tmp_path / "cost.png")
    assert "matplotlib is not installed" in caplog.text
    curves.reset()
    assert paddle.v2.plot.Ploter is utils.plot.Ploter


def test_names_are_unique_within_a_guard() -> None:
    with utils.unique_name.guard():
        assert [utils.unique_name.generate("fc") for _ in range(2)] == ["fc_0", "fc_1"]


def test_what_framework_has() -> None:
    framework.seed(3)
    one = paddle.rand([2])
    framework.random.manual_seed(3)
    assert torch.equal(one, paddle.rand([2]))
    assert framework.get_default_dtype() == "float32"
    assert framework.core.VarDesc.VarType.FP32 == "float32"
    assert framework.io.save is paddle.save


def test_objects_of_core() -> None:
    scope = core.Scope()
    scope.var("w").get_tensor().set(np.ones((2, 2), np.float32), core.CPUPlace())
    assert np.array(scope.find_var("w").get_tensor()).sum() == 4
    ragged = core.LoDTensor()
    ragged.set(np.arange(3, dtype=np.int64), core.CPUPlace())
    ragged.set_lod([[0, 1, 3]])
    assert ragged.recursive_sequence_lengths() == [[1, 2]]
    assert core.get_cuda_device_count() == torch.cuda.device_count()
    assert issubclass(core.EOFException, Exception)
    with pytest.raises(AttributeError, match=r"core.Dataset is not built: use fluid.DatasetFactory\(\)"):
        _ = core.Dataset


def test_variables_tell_their_type() -> None:
    kinds = core.VarDesc.VarType
    with static.program_guard(static.Program(), static.Program()):
        x = fluid.data("x", [None, 3])
        array = fluid.layers.create_array("float32")
        made = fluid.default_main_program().global_block().create_var(name="r", type=kinds.SELECTED_ROWS)
        assert [x.type, array.type, made.type] == [kinds.LOD_TENSOR, kinds.LOD_TENSOR_ARRAY, kinds.SELECTED_ROWS]
        desc = x.desc
        assert (desc.name(), desc.type(), desc.dtype(), desc.shape()) == ("x", kinds.LOD_TENSOR, kinds.FP32, [-1, 3])
        assert x.type not in (kinds.FEED_MINIBATCH, kinds.FETCH_LIST, kinds.READER, kinds.RAW)
        assert not desc.persistable()
        assert desc.lod_level() == 0


@pytest.mark.parametrize("name", ["get_include", "get_lib"])
def test_there_is_nothing_to_build_against(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"sysconfig.{name} is not built: there is no C\+\+ library"):
        getattr(paddle.sysconfig, name)
