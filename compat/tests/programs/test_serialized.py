"""Inference models as bytes: they compute what the program did, and files of them are inference models."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import CheckpointError, NotReadyError, UsageError, UsageTypeError
from fleet_paddle import mode

of_static: Any = importlib.import_module("paddle.static")
layers: Any = importlib.import_module("paddle.fluid").layers
FOREIGN = Path(__file__).parents[1] / "foreign" / "data" / "models"
X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


class Built:
    """A trained program, its scope, and what it predicts."""

    def __init__(self) -> None:
        self.main, self.exe = static.Program(), static.Executor(static.CPUPlace())
        startup = static.Program()
        with static.program_guard(self.main, startup):
            self.x = static.data("x", [None, 4])
            self.out = layers.fc(layers.dropout(self.x, 0.5), 3, act="softmax")
            static.optimizer.Adam(0.1).minimize(layers.mean(layers.square(self.out)))
        self.exe.run(startup)
        self.exe.run(self.main, feed={"x": X})
        test = self.main.clone(for_test=True)
        self.wanted = self.exe.run(test, feed={"x": X}, fetch_list=[self.out])[0]


@pytest.fixture
def built() -> Iterator[Built]:
    mode.enable_static()
    with static.scope_guard(static.Scope()), static.unique_name.guard():
        yield Built()


def test_bytes_compute_the_same(built: Built) -> None:
    program = of_static.serialize_program([built.x], [built.out], program=built.main)
    values = of_static.serialize_persistables(built.x, built.out, built.exe, program=built.main)
    assert isinstance(program, bytes)
    assert isinstance(values, bytes)
    with static.scope_guard(static.Scope()):
        again = of_static.deserialize_program(program)
        assert {op.type for op in again.global_block().ops}.isdisjoint({"adam", "mean", "square"})
        with pytest.raises(NotReadyError):
            built.exe.run(again, feed={"x": X}, fetch_list=[built.out.name])
        of_static.deserialize_persistables(again, values, built.exe)
        assert len(static.global_scope().tensors) == 2, "the optimizer's state is no part of it"
        found = built.exe.run(again, feed={"x": X}, fetch_list=[built.out.name])[0]
    np.testing.assert_array_equal(found, built.wanted)


def test_files_of_them_are_an_inference_model(built: Built, tmp_path: Path) -> None:
    with static.program_guard(built.main):  # the default program, unless another is given
        program = of_static.serialize_program([built.x], [built.out])
        values = of_static.serialize_persistables([built.x], [built.out], built.exe)
    of_static.save_to_file(tmp_path / "in" / "net.pdmodel", program)
    of_static.save_to_file(str(tmp_path / "in" / "net.pdiparams"), values)
    assert of_static.load_from_file(tmp_path / "in" / "net.pdmodel") == program
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["net.pdiparams", "net.pdmodel"]
    with static.scope_guard(static.Scope()):
        again, feeds, targets = of_static.load_inference_model(str(tmp_path / "in" / "net"), built.exe)
        assert feeds == ["x"]
        np.testing.assert_array_equal(built.exe.run(again, feed={"x": X}, fetch_list=targets)[0], built.wanted)


def test_a_normalized_program_is_another_one(built: Built) -> None:
    before = str(built.main)
    part = of_static.normalize_program(built.main, [built.x], [built.out])
    assert str(built.main) == before
    np.testing.assert_array_equal(built.exe.run(part, feed={"x": X}, fetch_list=[built.out])[0], built.wanted)


def test_bytes_of_paddlepaddle_are_read() -> None:
    name = sorted(path.stem for path in FOREIGN.glob("*.pdmodel") if path.with_suffix(".pdiparams").is_file())[0]
    held = dict(np.load(FOREIGN / f"{name}.npz"))
    expected = held.pop("__out__")
    exe = static.Executor(static.CPUPlace())
    with static.scope_guard(static.Scope()):
        program = of_static.deserialize_program(of_static.load_from_file(FOREIGN / f"{name}.pdmodel"))
        of_static.deserialize_persistables(program, of_static.load_from_file(FOREIGN / f"{name}.pdiparams"), exe)
        last = program.global_block().ops[-1].output_names[0]
        np.testing.assert_allclose(exe.run(program, feed=held, fetch_list=[last])[0], expected, rtol=1e-5, atol=1e-6)


def test_mistakes_are_named(built: Built, tmp_path: Path) -> None:
    values = of_static.serialize_persistables(built.x, built.out, built.exe, program=built.main)
    with static.program_guard(static.Program()):
        x = static.data("x", [None, 4])
        out = layers.fc(x, 2, param_attr="fc_0.w_0", bias_attr="fc_0.b_0")
        other = of_static.normalize_program(static.default_main_program(), x, out)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: of_static.deserialize_program(b"{}"), CheckpointError, "the data is no program"),
        (
            lambda: of_static.deserialize_program(b"\xff\x00nonsense"),
            CheckpointError,
            "^the data is damaged, or no program of Pa",
        ),
        (lambda: of_static.deserialize_program("{}"), UsageTypeError, "deserialize_program: give bytes, .* got str"),
        (lambda: of_static.save_to_file(tmp_path / "a", "text"), UsageTypeError, "save_to_file: give bytes"),
        (lambda: of_static.load_from_file(tmp_path / "no"), CheckpointError, "cannot read .*no: No such file"),
        (
            lambda: of_static.serialize_program(["x"], built.out),
            UsageTypeError,
            "feed_vars must be a variable or a list",
        ),
        (lambda: of_static.serialize_program(built.x, []), UsageError, "fetch_vars must have at least one"),
        (
            lambda: of_static.deserialize_persistables(other, values, built.exe),
            CheckpointError,
            r"float32\[4, 3\], but",
        ),
        (
            lambda: of_static.deserialize_persistables(other, values[:-9], built.exe),
            CheckpointError,
            "^the data is damaged: its checksum",
        ),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
