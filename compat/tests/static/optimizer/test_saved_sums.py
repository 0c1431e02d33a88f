"""The side file of what programs save: a file that is not as it was saved is refused, wherever it came from."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fleet.errors import CheckpointError
from fleet_programs import io
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope, global_scope, scope_guard
from fleet_programs.io.files import read_safetensors, write_alone, write_tensors
from fleet_programs.io.listing import LISTING, Listing
from fleet_programs.program.program import Program
from support.parity.training import in_threads


@pytest.fixture(autouse=True)
def scope() -> Iterator[Scope]:
    with scope_guard(Scope()):
        yield global_scope()


@pytest.fixture
def program() -> Program:
    made = Program()
    for name in ("a", "b"):
        made.global_block().create_var(name, [2], "float32", persistable=True)
    return made


def save(program: Program, folder: Path, a: float, b: float, filename: str | None = None) -> None:
    tensors = global_scope().tensors
    tensors.update({"a": torch.full((2,), float(a)), "b": torch.full((2,), float(b))})
    io.save_persistables(Executor(), folder, program, filename)
    tensors.update({"a": torch.zeros(2), "b": torch.zeros(2)})


def loaded(program: Program, folder: Path, filename: str | None = None) -> tuple[float, float]:
    io.load_persistables(Executor(), folder, program, filename)
    tensors = global_scope().tensors
    return float(tensors["a"][0]), float(tensors["b"][0])


def refused(program: Program, folder: Path, words: str, filename: str | None = None) -> None:
    with pytest.raises(CheckpointError, match=words) as caught:
        loaded(program, folder, filename)
    assert "\n" not in str(caught.value)
    assert not any(tensor.any() for tensor in global_scope().tensors.values()), "something was taken over"


def test_files_that_are_swapped_or_of_another_save_are_told(program: Program, tmp_path: Path) -> None:
    save(program, tmp_path / "one", 1, 2)
    save(program, tmp_path / "two", 3, 4)
    assert loaded(program, tmp_path / "one") == (1, 2)
    save(program, tmp_path / "one", 1, 2)
    shutil.copy(tmp_path / "two/b.npy", tmp_path / "one")
    refused(program, tmp_path / "one", rf"one/b.npy is damaged: its checksum is .*; .* or delete {LISTING} to load")
    (tmp_path / "one" / LISTING).unlink()
    assert loaded(program, tmp_path / "one") == (1, 4)


def test_a_file_that_was_not_saved_there_or_is_gone(program: Program, tmp_path: Path) -> None:
    save(program, tmp_path / "one", 1, 2)
    program.global_block().create_var("c", [2], "float32", persistable=True)
    np.save(tmp_path / "one/c.npy", np.zeros(2, np.float32))
    refused(program, tmp_path / "one", f"c.npy was not saved there: {LISTING} does not have it; delete that file")
    os.unlink(tmp_path / "one/b.npy")
    with pytest.raises(CheckpointError, match="b.npy is missing"):
        io.load_program_state(tmp_path / "one")


def test_files_from_before_the_first_sums_are_still_read(program: Program, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full(2, 5, np.float32))
    write_tensors(tmp_path, {"b": torch.full((2,), 6.0)}, None)
    assert loaded(program, tmp_path) == (5, 6)
    np.save(tmp_path / "b.npy", np.full(2, 5, np.float32))
    global_scope().tensors.clear()
    refused(program, tmp_path, "b.npy is damaged")


def test_saves_into_one_folder_keep_each_others_sums(program: Program, tmp_path: Path) -> None:
    in_threads(
        *(
            lambda number=number: write_tensors(tmp_path, {f"v{number}": torch.full((2,), number)}, None)
            for number in range(8)
        )
    )
    assert sorted(Listing.of(tmp_path).files) == [f"v{number}.npy" for number in range(8)]
    assert len(io.load_program_state(tmp_path)) == 8
    save(program, tmp_path, 1, 2)
    save(program, tmp_path, 3, 4, "all")
    assert loaded(program, tmp_path) == (1, 2)
    assert loaded(program, tmp_path, "all") == (3, 4)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_crash_among_the_renames_leaves_the_new_save(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(program, tmp_path, 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(Listing, "finish", lambda _: None)  # killed when the side file is there, and nothing else
        save(program, tmp_path, 3, 4)
    assert np.load(tmp_path / "a.npy")[0] == 1
    assert loaded(program, tmp_path) == (3, 4)
    save(program, tmp_path, 5, 6, "other")  # whoever saves next ends what was begun
    assert np.load(tmp_path / "a.npy")[0] == 3
    assert loaded(program, tmp_path) == (3, 4)


def test_a_damaged_side_file_is_named_and_does_not_keep_from_saving(
    program: Program, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(program, tmp_path, 1, 2)
    text = (tmp_path / LISTING).read_text()
    for damaged in ("", "{}", text[:-1], text.replace("has_others", "has_other5"), json.dumps(json.loads(text))):
        (tmp_path / LISTING).write_text(damaged)
        refused(program, tmp_path, f"{LISTING} is damaged")
    save(program, tmp_path, 3, 4)
    assert "it is begun anew" in caplog.text
    assert loaded(program, tmp_path) == (3, 4)


def test_a_file_alone_has_its_sum_in_it(tmp_path: Path) -> None:
    values = {"w": torch.arange(6.0).view(2, 3), "n": torch.tensor([1, 2, 3])}
    write_alone(tmp_path / "m.pdparams", values)
    assert [path.name for path in tmp_path.iterdir()] == ["m.pdparams"]
    assert all(torch.equal(one, values[name]) for name, one in load_file(tmp_path / "m.pdparams").items())
    good = (tmp_path / "m.pdparams").read_bytes()
    shutil.copy(tmp_path / "m.pdparams", tmp_path / "moved")
    assert torch.equal(read_safetensors(tmp_path / "moved")["w"], values["w"])
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 4
        (tmp_path / "moved").write_bytes(bad)
        try:
            found = read_safetensors(tmp_path / "moved")
        except CheckpointError:
            continue
        assert b"fleet.checksum" in good[place - 14 : place + 14], "not the name of the sum alone"
        assert all(torch.equal(found[name], values[name]) for name in values)
    save_file({"w": torch.ones(2)}, tmp_path / "foreign")
    assert read_safetensors(tmp_path / "foreign")["w"].tolist() == [1, 1]
