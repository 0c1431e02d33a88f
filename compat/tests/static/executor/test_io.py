"""Saving and loading: plain files that numpy and safetensors read, and errors that name what does not fit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from fleet.errors import CheckpointError, NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs import io
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope, global_scope, scope_guard
from fleet_programs.expressions import names
from fleet_programs.io.listing import LISTING
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.io import data
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable
from fleet_programs.remote import Remote
from program_support.programs_compared import same


@pytest.fixture(autouse=True)
def scope() -> Iterator[Scope]:
    with scope_guard(Scope()):
        yield global_scope()


def build() -> tuple[Program, Variable]:
    """x -> mul -> out, and some state that no target needs."""
    main, startup = Program(), Program()
    with program_guard(main, startup), names.guard():
        x = data("x", [3])
        layer = LayerBuilder("fc")
        out = layer.apply("mul", {"X": x, "Y": layer.parameter(None, [3, 2])})
        other = data("other", [2])
        layer.apply("sum", {"X": [out, other]})
        main.global_block().create_var("a/step @1", [1], "int64", persistable=True)
        main.global_block().create_var("half", [2], "bfloat16", persistable=True)
        main.global_block().create_var("flag", [2], "bool", persistable=True)
    return main, out


def fill(scope: Scope) -> dict[str, torch.Tensor]:
    scope.tensors.update(
        {
            "fc_0.w_0": torch.arange(6.0).view(3, 2),
            "a/step @1": torch.tensor([2**60]),
            "half": torch.tensor([1.5, -3e38], dtype=torch.bfloat16),
            "flag": torch.tensor([True, False]),
        }
    )
    return {name: tensor.clone() for name, tensor in scope.tensors.items()}


@pytest.mark.parametrize("filename", [None, "all.safetensors"])
def test_persistables_come_back_as_they_were(tmp_path: Path, scope: Scope, filename: str | None) -> None:
    main, _ = build()
    exe = Executor()
    saved = fill(scope)
    io.save_persistables(exe, tmp_path, main, filename)
    io.save_persistables(exe, tmp_path, main, filename)
    weight = scope.tensors["fc_0.w_0"].zero_()
    del scope.tensors["half"]
    io.load_persistables(exe, str(tmp_path), main, filename)
    assert scope.tensors["fc_0.w_0"] is weight, "others may hold views of it"
    assert scope.tensors.keys() == saved.keys()
    assert all(torch.equal(scope.tensors[name], saved[name]) for name in saved)
    assert all(scope.tensors[name].dtype == saved[name].dtype for name in saved)


def test_files_are_read_without_us(tmp_path: Path, scope: Scope) -> None:
    main, _ = build()
    saved = fill(scope)
    io.save_persistables(Executor(), tmp_path / "new" / "folder", main)
    files = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert files == ["a%2Fstep%20%401.npy", "fc_0.w_0.npy", "flag.npy", LISTING, "half.npy"]
    assert np.array_equal(np.load(tmp_path / "new/folder/fc_0.w_0.npy"), saved["fc_0.w_0"].numpy())
    io.save_params(Executor(), tmp_path, main, "p")
    assert list(load_file(tmp_path / "p")) == ["fc_0.w_0"]
    (tmp_path / LISTING).unlink()
    np.save(tmp_path / "fc_0.w_0.npy", np.asfortranarray(np.full((3, 2), 7, ">f4")))
    io.load_params(Executor(), tmp_path, main)
    assert scope.tensors["fc_0.w_0"].tolist() == [[7.0, 7.0]] * 3
    save_file({"fc_0.w_0": np.ones((3, 2), np.float32), "more": np.ones(1)}, tmp_path / "foreign")
    io.load_vars(Executor(), tmp_path, main, vars=["fc_0.w_0"], filename="foreign")
    assert scope.tensors["fc_0.w_0"].sum() == 6


def test_what_does_not_fit_is_named_and_nothing_is_loaded(tmp_path: Path, scope: Scope) -> None:
    main, _ = build()
    exe = Executor()
    with pytest.raises(NotReadyError, match="'fc_0.w_0' has no value; run the startup program"):
        io.save_params(exe, tmp_path, main)
    saved = fill(scope)
    io.save_persistables(exe, tmp_path, main)
    io.save_persistables(exe, tmp_path, main, "all")
    scope.tensors["fc_0.w_0"].zero_()

    def refused(match: str, filename: str | None = None) -> None:
        with pytest.raises(CheckpointError, match=match):
            io.load_persistables(exe, tmp_path, main, filename)
        assert not scope.tensors["fc_0.w_0"].any()

    good = (tmp_path / "half.npy").read_bytes()
    for damaged in (b"", b"nonsense", good[:20], good[:-1], good + b"x"):
        (tmp_path / "half.npy").write_bytes(damaged)
        refused("half.npy is damaged")
    (tmp_path / LISTING).unlink()
    unlike = (good.replace(b"}", b"\0"), good[:11] + b"}" * 125)
    for damaged in (b"", b"nonsense", good[:20], good[:-1], good + b"x", *unlike):
        (tmp_path / "half.npy").write_bytes(damaged)
        refused("half.npy is damaged")
    (tmp_path / "half.npy").unlink()
    refused(f"variable 'half' is not in {tmp_path}: there is no half.npy")
    np.save(tmp_path / "half.npy", np.array([{}], object), allow_pickle=True)
    refused("holds object")
    np.save(tmp_path / "half.npy", np.zeros((2, 1), np.float32))
    refused(r"holds float32\[2, 1\], but variable 'half' is bfloat16\[2\]")
    (tmp_path / "all").write_bytes((tmp_path / "all").read_bytes()[:-1])
    refused("is damaged", "all")
    (tmp_path / "all").write_bytes(b"")
    refused("is damaged", "all")
    refused("there is no file none in", "none")
    flag = {name: tensor.numpy() for name, tensor in saved.items() if name != "half"}
    save_file(flag, tmp_path / "all")
    refused("variable 'half' is not in .*all", "all")
    save_file(flag | {"half": np.zeros(2, np.uint16)}, tmp_path / "all")
    refused("holds uint16", "all")
    with pytest.raises(CheckpointError, match="there is no folder"):
        io.load_persistables(exe, tmp_path / "nowhere", main)
    with pytest.raises(CheckpointError, match="cannot write"):
        io.save_params(exe, tmp_path / "flag.npy", main)
    with pytest.raises(UsageError, match="without its folder, got '../x'"):
        io.save_params(exe, tmp_path, main, "../x")
    with pytest.raises(UsageTypeError, match="executor must be an Executor, got str"):
        io.save_params("exe", tmp_path, main)  # type: ignore[arg-type]
    with pytest.raises(UsageTypeError, match="give vars, a list"):
        io.save_vars(exe, tmp_path, main)


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    main, _ = build()
    fill(scope)
    io.save_persistables(Executor(), tmp_path, main)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    scope.tensors["fc_0.w_0"].zero_()
    written = []

    def fails_late(*args: Any) -> Any:
        written.append(args)
        if len(written) == 3:
            raise CheckpointError("the disk is full")
        return real(*args)

    real = sys.modules["fleet_programs.io.files"]._write_npy
    monkeypatch.setattr("fleet_programs.io.files._write_npy", fails_late)
    with pytest.raises(CheckpointError, match="the disk is full"):
        io.save_persistables(Executor(), tmp_path, main)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("params", [None, "params"])
def test_inference_model(tmp_path: Path, scope: Scope, params: str | None) -> None:
    main, out = build()
    saved = fill(scope)
    exe = Executor()
    names_ = io.save_inference_model(
        tmp_path, ["x"], [out], exe, main, params_filename=params, export_for_deployment=params is None
    )
    assert names_ == [out.name]
    assert same(Program.from_json((tmp_path / "__model__.main_program").read_text()), main) if params else True
    with scope_guard(Scope()):
        program, feeds, targets = io.load_inference_model(tmp_path, exe, params_filename=params)
        assert feeds == ["x"]
        assert list(global_scope().tensors) == ["fc_0.w_0"], "only what the targets need"
        x = np.ones((4, 3), np.float32)
        (result,) = exe.run(program, {"x": x}, targets)
        assert np.array_equal(result, x @ saved["fc_0.w_0"].numpy())
    io.save_inference_model(tmp_path / "alone", ["x"], [out], exe, main, program_only=True)
    assert [path.name for path in (tmp_path / "alone").glob("*") if path.name != LISTING] == ["__model__"]


def test_inference_models_that_cannot_be(tmp_path: Path, scope: Scope) -> None:
    main, out = build()
    fill(scope)
    exe = Executor()
    with pytest.raises(UsageError, match=f"target '{out.name}' needs 'x', which mul reads; add it to feeded_var_names"):
        io.save_inference_model(tmp_path, [], [out], exe, main)
    with pytest.raises(UsageError, match="no variable 'z'"):
        io.save_inference_model(tmp_path, "z", out, exe, main)
    with pytest.raises(UsageTypeError, match="target_vars must hold variables, got str"):
        io.save_inference_model(tmp_path, "x", [out.name], exe, main)  # type: ignore[list-item]
    with pytest.raises(CheckpointError, match="has no inference model: there is no __model__"):
        io.load_inference_model(tmp_path, exe)
    for nonsense in (b"", b"\xff", main.to_json().encode()):
        (tmp_path / "__model__").write_bytes(nonsense)
        with pytest.raises(CheckpointError, match="is not an inference model"):
            io.load_inference_model(tmp_path, exe)
    with pytest.raises(NotSupportedError, match="pserver_endpoints"):
        io.load_inference_model(tmp_path, exe, pserver_endpoints=["a:1"])


def test_save_and_load_of_a_whole_program(tmp_path: Path, scope: Scope) -> None:
    main, _ = build()
    saved = fill(scope)
    io.save(main, tmp_path / "models" / "m")
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [
        LISTING,
        "m.params.safetensors",
        "m.program.json",
        "m.state.safetensors",
    ]
    scope.tensors.clear()
    io.load(main, tmp_path / "models" / "m")
    assert all(torch.equal(scope.tensors[name], saved[name]) for name in saved)
    scope.tensors.clear()
    io.load(main, tmp_path / "models" / "m", Executor(), ["half"])
    assert list(scope.tensors) == ["half"]
    with pytest.raises(UsageError, match="model_path must end with a name"):
        io.save(main, "/")


def test_a_whole_save_that_fails_leaves_the_one_before(
    tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, _ = build()
    fill(scope)
    io.save(main, tmp_path / "m")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    scope.tensors["fc_0.w_0"].zero_()

    def fails(*args: Any) -> None:
        raise CheckpointError("the disk is full")

    monkeypatch.setattr("fleet_programs.io.files.write_file", fails)  # writes the program, after all values
    with pytest.raises(CheckpointError, match="the disk is full"):
        io.save(main, tmp_path / "m")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_programs_with_servers_are_saved_by_those_who_know_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, _ = build()
    main.notes["servers"] = {}
    those = mock.create_autospec(Remote)
    monkeypatch.setattr("fleet_programs.remote._load", lambda: those)
    exe = Executor()
    io.save_persistables(exe, tmp_path, main)
    io.load_persistables(exe, tmp_path, main, "f")
    those.save.assert_called_once_with(exe, tmp_path, main, None)
    those.load.assert_called_once_with(exe, tmp_path, main, "f")
    with pytest.raises(NotSupportedError, match="keeps from step to step is on servers; use save_persistables"):
        io.save_vars(exe, tmp_path, main, predicate=io.is_persistable)
    with pytest.raises(NotSupportedError, match=r"on servers; use static.io.load_persistables\(\)"):
        io.load(main, tmp_path / "x")
